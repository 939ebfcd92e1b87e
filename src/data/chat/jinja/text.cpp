// SPDX-License-Identifier: Apache-2.0
#include "data/chat/jinja/text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cmath>

#include "core/utf8.h"

namespace gradmill::jinja {
namespace {

CodePoint char_at(std::string_view text, size_t position) {
  return decode_utf8(text.substr(position)).value_or(CodePoint{0xFFFD, 1});
}

CodePoint last_char(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return {char_at(text, begin).value, text.size() - begin};
}

char32_t to_upper(char32_t letter) { return static_cast<char32_t>(utf8proc_toupper(static_cast<int32_t>(letter))); }
char32_t to_lower(char32_t letter) { return static_cast<char32_t>(utf8proc_tolower(static_cast<int32_t>(letter))); }
bool has_case(char32_t letter) { return to_upper(letter) != letter || to_lower(letter) != letter; }

template <typename Map>
std::string map_chars(std::string_view text, Map&& map) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const CodePoint letter = char_at(text, i);
    append_utf8(result, map(letter.value));
    i += letter.num_bytes;
  }
  return result;
}

bool all_cased(std::string_view text, char32_t (*convert)(char32_t)) {
  bool any = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint letter = char_at(text, i);
    if (has_case(letter.value)) {
      any = true;
      if (convert(letter.value) != letter.value) return false;
    }
    i += letter.num_bytes;
  }
  return any;
}

bool is_printable(char32_t letter) {
  if (letter == ' ') return true;
  switch (utf8proc_category(static_cast<int32_t>(letter))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

std::string escaped(char32_t letter) {
  const auto code = static_cast<uint32_t>(letter);
  if (letter == '\n') return "\\n";
  if (letter == '\r') return "\\r";
  if (letter == '\t') return "\\t";
  if (code < 0x100) return fmt::format("\\x{:02x}", code);
  return code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
}

}  // namespace

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_valid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto letter = decode_utf8(text.substr(i));
    if (!letter) return false;
    i += letter->num_bytes;
  }
  return true;
}

size_t text_length(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

std::vector<std::string_view> text_chars(std::string_view text) {
  std::vector<std::string_view> chars;
  for (size_t i = 0; i < text.size();) {
    chars.push_back(text.substr(i, char_at(text, i).num_bytes));
    i += chars.back().size();
  }
  return chars;
}

std::string_view text_between(std::string_view text, size_t begin, size_t end) {
  size_t from = 0, to = 0;
  for (size_t i = 0; i < end; ++i) {
    if (i == begin) from = to;
    to += char_at(text, to).num_bytes;
  }
  return begin >= end ? std::string_view() : text.substr(from, to - from);
}

std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> chars) {
  const auto drops = [&](std::string_view letter) {
    return chars ? chars->find(letter) != std::string_view::npos : is_space(char_at(letter, 0).value);
  };
  while (side != Side::right && !text.empty()) {
    const size_t size = char_at(text, 0).num_bytes;
    if (!drops(text.substr(0, size))) break;
    text.remove_prefix(size);
  }
  while (side != Side::left && !text.empty()) {
    const size_t size = last_char(text).num_bytes;
    if (!drops(text.substr(text.size() - size))) break;
    text.remove_suffix(size);
  }
  return text;
}

std::string upper(std::string_view text) { return map_chars(text, to_upper); }
std::string lower(std::string_view text) { return map_chars(text, to_lower); }

std::string title(std::string_view text) {
  bool in_word = false;
  return map_chars(text, [&](char32_t letter) {
    const char32_t result = in_word ? to_lower(letter) : to_upper(letter);
    in_word = has_case(letter);
    return result;
  });
}

std::string capitalize(std::string_view text) {
  bool first = true;
  return map_chars(text, [&](char32_t letter) {
    const char32_t result = first ? to_upper(letter) : to_lower(letter);
    first = false;
    return result;
  });
}

bool is_upper(std::string_view text) { return all_cased(text, to_upper); }
bool is_lower(std::string_view text) { return all_cased(text, to_lower); }

std::string replace(std::string_view text, std::string_view from, std::string_view to, int64_t count) {
  std::string result;
  size_t position = 0;
  if (from.empty()) {
    // Like Python, inserts the new text around every character.
    const auto chars = text_chars(text);
    for (size_t i = 0; i <= chars.size(); ++i) {
      if (count < 0 || static_cast<int64_t>(i) < count) result += to;
      if (i < chars.size()) result += chars[i];
    }
    return result;
  }
  while (count != 0) {
    const size_t found = text.find(from, position);
    if (found == std::string_view::npos) break;
    result.append(text.substr(position, found - position)).append(to);
    position = found + from.size();
    if (count > 0) --count;
  }
  return result.append(text.substr(position));
}

namespace {

std::vector<std::string_view> split_at_spaces(std::string_view text, int64_t limit, Side from) {
  std::vector<std::string_view> parts;
  const bool left = from == Side::left;
  for (text = strip(text, from); !text.empty(); text = strip(text, from)) {
    if (limit >= 0 && static_cast<int64_t>(parts.size()) >= limit) {
      parts.push_back(text);
      break;
    }
    size_t size = 0;
    while (size < text.size()) {
      const CodePoint letter = left ? char_at(text, size) : last_char(text.substr(0, text.size() - size));
      if (is_space(letter.value)) break;
      size += letter.num_bytes;
    }
    parts.push_back(left ? text.substr(0, size) : text.substr(text.size() - size));
    left ? text.remove_prefix(size) : text.remove_suffix(size);
  }
  return parts;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, std::optional<std::string_view> separator, int64_t limit,
                                    Side from) {
  std::vector<std::string_view> parts;
  if (!separator) {
    parts = split_at_spaces(text, limit, from);
  } else {
    const bool left = from == Side::left;
    while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
      const size_t found = left ? text.find(*separator) : text.rfind(*separator);
      if (found == std::string_view::npos) break;
      const size_t after = found + separator->size();
      parts.push_back(left ? text.substr(0, found) : text.substr(after));
      text = left ? text.substr(after) : text.substr(0, found);
    }
    parts.push_back(text);
  }
  if (from == Side::right) std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const CodePoint letter = char_at(text, i);
    const char32_t c = letter.value;
    size_t after = i + letter.num_bytes;
    const bool ends = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (ends) {
      if (c == '\r' && after < text.size() && text[after] == '\n') ++after;
      lines.push_back(text.substr(begin, i - begin));
      begin = after;
    }
    i = after;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string quoted(std::string_view text) {
  const bool single = text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char quote = single ? '\'' : '"';
  std::string result(1, quote);
  for (size_t i = 0; i < text.size();) {
    const CodePoint letter = char_at(text, i);
    if (letter.value == static_cast<char32_t>(quote) || letter.value == '\\')
      (result += '\\') += static_cast<char>(letter.value);
    else if (is_printable(letter.value))
      result += text.substr(i, letter.num_bytes);
    else
      result += escaped(letter.value);
    i += letter.num_bytes;
  }
  return result += quote;
}

std::string number_text(double number) {
  std::string text = fmt::format("{}", number);
  if (std::isfinite(number) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace gradmill::jinja
