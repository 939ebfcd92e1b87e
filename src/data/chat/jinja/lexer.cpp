// SPDX-License-Identifier: Apache-2.0
#include "data/chat/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "data/chat/jinja/literal.h"
#include "data/chat/jinja/text.h"
#include "core/utf8.h"

namespace gradmill::jinja {
namespace {

// Converts line ends to "
// " and drops the last one, like Jinja.
std::string normalized(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
      continue;
    }
    text += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool is_name_char(char letter) {
  const auto byte = static_cast<unsigned char>(letter);
  return byte >= 0x80 || letter == '_' || (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
         (letter >= 'A' && letter <= 'Z');
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)) {}

  std::vector<Token> run() {
    while (position_ < source_.size()) lex_data();
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  enum class Tag { block, print, comment };

  [[noreturn]] void fail(std::string what) const { throw SyntaxFault{line_, std::move(what)}; }
  std::string_view rest() const { return std::string_view(source_).substr(position_); }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text), {}}); }
  void advance(size_t size) {
    const std::string_view passed = rest().substr(0, size);
    line_ += static_cast<int>(std::ranges::count(passed, '\n'));
    position_ += size;
    // For lstrip_blocks: whether a tag that follows immediately would be at the start of a line.
    at_line_start_ = position_ == 0 || source_[position_ - 1] == '\n';
  }

  // Lexes plain text up to a tag, and the tag.
  void lex_data() {
    size_t found = position_;
    for (;; ++found) {
      found = source_.find('{', found);
      if (found == std::string::npos || found + 1 == source_.size()) {
        add_data(rest());
        return advance(source_.size() - position_);
      }
      const char kind = source_[found + 1];
      if (kind == '%' || kind == '{' || kind == '#') break;
    }
    const char kind = source_[found + 1];
    const Tag tag = kind == '%' ? Tag::block : (kind == '{' ? Tag::print : Tag::comment);
    const char sign = found + 2 < source_.size() ? source_[found + 2] : ' ';
    const bool has_sign = sign == '-' || sign == '+';
    add_data(before_tag(std::string_view(source_).substr(position_, found - position_), tag, sign));
    advance(found - position_ + (has_sign ? 3 : 2));
    if (tag == Tag::comment) return skip_comment();
    if (tag == Tag::block && lex_raw()) return;
    add(tag == Tag::block ? TokenKind::block_begin : TokenKind::print_begin, "");
    lex_tag(tag);
  }

  void add_data(std::string_view text) {
    if (!text.empty()) add(TokenKind::data, std::string(text));
  }

  std::string_view before_tag(std::string_view text, Tag tag, char sign) const {
    if (sign == '-') return strip(text, Side::right);
    if (sign == '+' || tag == Tag::print) return text;
    const size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !at_line_start_) return text;
    const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
    const bool blank = strip(text.substr(line_begin), Side::left).empty();
    return blank ? text.substr(0, line_begin) : text;
  }

  // Handles the white space that the end of a tag removes, after its sign and brackets.
  void finish_tag(char sign, bool trims_newline) {
    if (sign == '-')
      advance(rest().size() - strip(rest(), Side::left).size());
    else if (sign != '+' && trims_newline && rest().starts_with('\n'))
      advance(1);
  }

  void skip_comment() {
    const size_t end = source_.find("#}", position_);
    if (end == std::string::npos) fail("a comment {# is not closed by #}");
    const char sign = end > position_ ? source_[end - 1] : ' ';
    advance(end + 2 - position_);
    finish_tag(sign, true);
  }

  size_t spaces_at(size_t position) const {
    const std::string_view text = std::string_view(source_).substr(position);
    return text.size() - strip(text, Side::left).size();
  }

  // The end of the tag that contains only `word` and whose brackets begin before `position`, or npos. `sign` receives
  // the sign at its end.
  size_t word_tag_end(size_t position, std::string_view word, char& sign) const {
    position += spaces_at(position);
    if (source_.compare(position, word.size(), word) != 0) return std::string::npos;
    position += word.size();
    position += spaces_at(position);
    sign = position < source_.size() ? source_[position] : ' ';
    if (sign == '-' || sign == '+') ++position;
    return source_.compare(position, 2, "%}") == 0 ? position + 2 : std::string::npos;
  }

  bool lex_raw() {
    char sign = ' ';
    const size_t begin = word_tag_end(position_, "raw", sign);
    if (begin == std::string::npos || sign == '+') return false;
    const int first_line = line_;
    advance(begin - position_);
    finish_tag(sign, false);
    for (size_t tag = position_; (tag = source_.find("{%", tag)) != std::string::npos; ++tag) {
      const char left = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
      const size_t end = word_tag_end(tag + (left == '-' || left == '+' ? 3 : 2), "endraw", sign);
      if (end == std::string::npos) continue;
      add_data(before_tag(std::string_view(source_).substr(position_, tag - position_), Tag::block, left));
      advance(end - position_);
      finish_tag(sign, true);
      return true;
    }
    line_ = first_line;
    fail("{% raw %} is not closed by {% endraw %}");
  }

  void lex_tag(Tag tag) {
    const std::string_view end = tag == Tag::block ? "%}" : "}}";
    const int first_line = line_;
    size_t num_open = 0;  // open brackets: the "}}" of a nested dict does not end the tag
    while (true) {
      advance(spaces_at(position_));
      if (position_ == source_.size()) break;
      const char sign = rest().front();
      const bool signed_end = (sign == '-' || (sign == '+' && tag == Tag::block)) && rest().substr(1).starts_with(end);
      if (num_open == 0 && (signed_end || rest().starts_with(end))) {
        add(tag == Tag::block ? TokenKind::block_end : TokenKind::print_end, "");
        advance(signed_end ? 3 : 2);
        return finish_tag(signed_end ? sign : ' ', tag == Tag::block);
      }
      lex_token(num_open);
    }
    line_ = first_line;
    fail(fmt::format("a tag {} is not closed by {}", tag == Tag::block ? "{%" : "{{", end));
  }

  void lex_token(size_t& num_open) {
    const char first = rest().front();
    if (first == '\'' || first == '"') return lex_text();
    if (first >= '0' && first <= '9') return lex_number();
    if (is_name_char(first)) return lex_name();
    constexpr std::array<std::string_view, 6> kLong = {"//", "**", "==", "!=", ">=", "<="};
    for (const std::string_view sign : kLong) {
      if (rest().starts_with(sign)) return add_sign(sign);
    }
    constexpr std::string_view kShort = "+-/*%~[](){}><=.:|,;";
    if (kShort.find(first) == std::string_view::npos) fail(fmt::format("unexpected {}", shown(first)));
    if (first == '(' || first == '[' || first == '{') ++num_open;
    if (first == ')' || first == ']' || first == '}') {
      if (num_open == 0) fail(fmt::format("unexpected '{}'", first));
      --num_open;
    }
    add_sign(rest().substr(0, 1));
  }

  static std::string shown(char letter) {
    const auto byte = static_cast<unsigned char>(letter);
    return byte > 0x20 && byte < 0x7f ? fmt::format("'{}'", letter) : fmt::format("byte {:#04x}", byte);
  }

  void add_sign(std::string_view sign) {
    add(TokenKind::sign, std::string(sign));
    advance(sign.size());
  }

  void lex_name() {
    const auto end = std::ranges::find_if_not(rest(), is_name_char);
    const auto size = static_cast<size_t>(end - rest().begin());
    add(TokenKind::name, std::string(rest().substr(0, size)));
    advance(size);
  }

  void lex_number() {
    try {
      const NumberLiteral literal = read_number(rest());
      add(TokenKind::number, std::string(rest().substr(0, literal.num_bytes)));
      tokens_.back().number = literal.value;
      advance(literal.num_bytes);
    } catch (const Fault& fault) {
      fail(fault.what());
    }
    if (!rest().empty() && is_name_char(rest().front())) fail("a number runs into a name");
  }

  void lex_text() {
    const char quote = rest().front();
    size_t end = 1;
    while (end < rest().size() && rest()[end] != quote) end += rest()[end] == '\\' ? 2 : 1;
    if (end >= rest().size()) fail("a text in quotes is not closed");
    try {
      add(TokenKind::text, unescape(rest().substr(1, end - 1)));
    } catch (const Fault& fault) {
      fail(fault.what());
    }
    advance(end + 1);
  }

  std::string source_;
  size_t position_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace gradmill::jinja
