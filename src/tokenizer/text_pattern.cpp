// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/text_pattern.h"

#include <algorithm>

#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

constexpr uint32_t kMaxRepeat = 64;  // in {m,n}: limits the time spent at one position
constexpr uint32_t kUnbounded = 0xFFFFFFFF;

bool is_kind(CharSet::Kind kind, char32_t c) {
  switch (kind) {
    case CharSet::Kind::space:
      return char_class(c) == CharClass::space;
    case CharSet::Kind::digit:
      return is_digit(c);
    case CharSet::Kind::word:
      return is_word_char(c);
    case CharSet::Kind::letter:
      return char_class(c) == CharClass::letter;
    case CharSet::Kind::number:
      return char_class(c) == CharClass::number;
    case CharSet::Kind::punctuation:
      return is_punctuation(c);
  }
  return false;
}

struct Failed {};

}  // namespace

// Throws Failed if the expression is more than alternatives of runs.
class RunParser {
 public:
  explicit RunParser(std::string_view expression) : text_(expression) {}

  std::vector<TextPattern::Run> parse() {
    std::vector<TextPattern::Run> runs;
    do {
      TextPattern::Run& run = runs.emplace_back();
      run.set = parse_set();
      parse_repeat(run);
    } while (skip('|'));
    if (position_ != text_.size()) throw Failed();
    return runs;
  }

 private:
  char32_t take() {
    if (position_ == text_.size()) throw Failed();
    const Utf8Char c = read_utf8(text_, position_);
    if (c.value == kInvalidByte) throw Failed();
    position_ += c.num_bytes;
    return c.value;
  }
  char32_t peek() const { return position_ == text_.size() ? 0 : read_utf8(text_, position_).value; }
  bool skip(char32_t c) {
    if (position_ == text_.size() || peek() != c) return false;
    take();
    return true;
  }

  CharSet parse_set() {
    CharSet set;
    const char32_t first = take();
    if (first == '[') return parse_brackets();
    if (first == '\\') {
      parse_escape(set);
    } else {
      constexpr std::u32string_view kMeta = U"()]{}*+?|^$.";
      if (kMeta.find(first) != kMeta.npos) throw Failed();
      set.add(first, first);
    }
    return set;
  }

  CharSet parse_brackets() {
    CharSet set;
    if (skip('^')) set.negate();
    bool any = false;
    while (!skip(']')) {
      any = true;
      char32_t first = take();
      if (first == '[' || first == '&' || first == '-') throw Failed();
      if (first == '\\') {
        const auto letter = parse_escape(set);
        if (!letter) continue;
        first = *letter;
      }
      char32_t last = first;
      if (peek() == '-') {
        take();
        last = take();
        if (last < first || last == ']' || last == '\\') throw Failed();
      }
      set.add(first, last);
    }
    if (!any) throw Failed();
    return set;
  }

  // Adds the characters of the escape to `set`. If it is a single character, returns it.
  std::optional<char32_t> parse_escape(CharSet& set) {
    const char32_t letter = take();
    constexpr std::u32string_view kKinds = U"sdw", kNegated = U"SDW";
    constexpr CharSet::Kind kOf[] = {CharSet::Kind::space, CharSet::Kind::digit, CharSet::Kind::word};
    if (const size_t i = kKinds.find(letter); i != kKinds.npos) return set.add(kOf[i]), std::nullopt;
    if (const size_t i = kNegated.find(letter); i != kNegated.npos) return set.add(kOf[i], true), std::nullopt;
    if (letter == 'p') return parse_property(set), std::nullopt;
    const char32_t c = letter == 'n' ? U'\n' : letter == 'r' ? U'\r' : letter == 't' ? U'\t' : letter;
    if (c == letter && (letter >= 0x80 || is_word_char(letter))) throw Failed();
    set.add(c, c);
    return c;
  }

  void parse_property(CharSet& set) {
    if (!skip('{')) throw Failed();
    const char32_t name = take();
    if (!skip('}')) throw Failed();
    if (name != 'L' && name != 'N') throw Failed();
    set.add(name == 'L' ? CharSet::Kind::letter : CharSet::Kind::number);
  }

  void parse_repeat(TextPattern::Run& run) {
    if (skip('+')) {
      run.max = kUnbounded;
    } else if (skip('{')) {
      run.min = run.max = parse_count();
      if (skip(',')) run.max = peek() == '}' ? kUnbounded : parse_count();
      if (!skip('}') || run.min == 0 || run.max < run.min) throw Failed();
    }
    // A second quantifier would make the first one lazy or possessive.
    if (peek() == '+' || peek() == '?' || peek() == '*' || peek() == '{') throw Failed();
  }

  uint32_t parse_count() {
    uint32_t count = 0;
    if (peek() < '0' || peek() > '9') throw Failed();
    while (peek() >= '0' && peek() <= '9') {
      count = count * 10 + (take() - '0');
      if (count > kMaxRepeat) throw Failed();
    }
    return count;
  }

  std::string_view text_;
  size_t position_ = 0;
};

bool CharSet::contains(char32_t c) const {
  if (c == kInvalidByte) return false;
  const bool found =
      std::ranges::any_of(ranges_, [c](const Range& range) { return range.first <= c && c <= range.last; }) ||
      std::ranges::any_of(kinds_, [c](const KindItem& item) { return is_kind(item.kind, c) != item.negated; });
  return found != negated_;
}

TextPattern TextPattern::literal(std::string text) {
  TextPattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

TextPattern TextPattern::characters(CharSet::Kind kind) {
  TextPattern pattern;
  pattern.runs_.emplace_back().set.add(kind);
  return pattern;
}

TextPattern TextPattern::words() { return *regex(R"(\w+|[^\w\s]+)"); }

std::optional<TextPattern> TextPattern::regex(std::string_view expression) {
  TextPattern pattern;
  pattern.scanner_ = split_kind_of_pattern(expression);
  if (pattern.scanner_) return pattern;
  try {
    pattern.runs_ = RunParser(expression).parse();
  } catch (const Failed&) {
    return std::nullopt;
  }
  return pattern;
}

size_t TextPattern::match_run(const Run& run, std::string_view text, size_t begin) const {
  size_t position = begin;
  uint32_t count = 0;
  while (count < run.max && position < text.size()) {
    const Utf8Char c = read_utf8(text, position);
    if (!run.set.contains(c.value)) break;
    position += c.num_bytes;
    ++count;
  }
  return count < run.min ? begin : position;
}

TokenSpan TextPattern::find(std::string_view text, size_t from) const {
  if (scanner_) return {from, from < text.size() ? next_split(*scanner_, text, from) : from};
  if (!literal_.empty()) {
    const size_t begin = text.find(literal_, from);
    return begin == text.npos ? TokenSpan{text.size(), text.size()} : TokenSpan{begin, begin + literal_.size()};
  }
  for (size_t begin = from; begin < text.size(); begin += read_utf8(text, begin).num_bytes) {
    for (const Run& run : runs_) {
      if (const size_t end = match_run(run, text, begin); end != begin) return {begin, end};
    }
  }
  return {text.size(), text.size()};
}

}  // namespace gradmill
