// SPDX-License-Identifier: Apache-2.0
#include "data/chat/jinja/literal.h"

#include <charconv>

#include "core/utf8.h"

namespace gradmill::jinja {
namespace {

bool is_digit(char letter, int base) {
  if (base == 16 && ((letter >= 'a' && letter <= 'f') || (letter >= 'A' && letter <= 'F'))) return true;
  return letter >= '0' && letter < '0' + (base < 10 ? base : 10);
}

// Reads digits, possibly with single underscores between them, which are dropped. Moves `position` past them.
std::string read_digits(std::string_view text, size_t& position, int base) {
  std::string digits;
  while (position < text.size()) {
    const bool underscore = text[position] == '_' && !digits.empty();
    const size_t place = position + (underscore ? 1 : 0);
    if (place >= text.size() || !is_digit(text[place], base)) break;
    digits += text[place];
    position = place + 1;
  }
  return digits;
}

int64_t integer_value(const std::string& digits, int base) {
  int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (result.ec != std::errc() || result.ptr != digits.data() + digits.size()) {
    throw Fault("a number that is not an integer of 64 bits");
  }
  return value;
}

int prefix_base(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') return 10;
  const char kind = static_cast<char>(text[1] | 0x20);
  const int base = kind == 'x' ? 16 : (kind == 'o' ? 8 : (kind == 'b' ? 2 : 10));
  return is_digit(text[2], base) ? base : 10;
}

// Reads the fraction and exponent after the digits of a whole number, if present.
std::string read_fraction(std::string_view text, size_t& position) {
  std::string fraction;
  if (position + 1 < text.size() && text[position] == '.' && is_digit(text[position + 1], 10)) {
    ++position;
    fraction = "." + read_digits(text, position, 10);
  }
  size_t place = position;
  if (place < text.size() && (text[place] == 'e' || text[place] == 'E')) {
    std::string exponent = "e";
    ++place;
    if (place < text.size() && (text[place] == '+' || text[place] == '-')) exponent += text[place++];
    const std::string digits = read_digits(text, place, 10);
    if (!digits.empty()) {
      fraction += exponent + digits;
      position = place;
    }
  }
  return fraction;
}

std::string read_escape(std::string_view text, size_t& position, size_t max_digits, int base) {
  size_t end = position;
  while (end < text.size() && end - position < max_digits && is_digit(text[end], base)) ++end;
  if (base == 16 && end - position != max_digits) throw Fault("an escape \\x, \\u or \\U with too few digits");
  const int64_t code = integer_value(std::string(text.substr(position, end - position)), base);
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) throw Fault("an escape that is not a character");
  position = end;
  std::string result;
  append_utf8(result, static_cast<char32_t>(code));
  return result;
}

}  // namespace

NumberLiteral read_number(std::string_view text) {
  size_t position = 0;
  const int base = prefix_base(text);
  if (base != 10) {
    position = 2;
    const std::string digits = read_digits(text, position, base);
    return {integer_value(digits, base), position};
  }
  const std::string digits = read_digits(text, position, 10);
  const std::string fraction = read_fraction(text, position);
  if (fraction.empty()) return {integer_value(digits, 10), position};
  const std::string all = digits + fraction;
  double value = 0;
  const auto result = std::from_chars(all.data(), all.data() + all.size(), value);
  if (result.ec != std::errc()) throw Fault("a number that is too large or too small");
  return {value, position};
}

std::string unescape(std::string_view text) {
  constexpr std::string_view kNames = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
  std::string result;
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      result += text[i++];
      continue;
    }
    const char kind = text[i + 1];
    i += 2;
    if (const size_t name = kNames.find(kind); name != std::string_view::npos) {
      result += kMeanings[name];
    } else if (kind == 'x') {
      result += read_escape(text, i, 2, 16);
    } else if (kind == 'u') {
      result += read_escape(text, i, 4, 16);
    } else if (kind == 'U') {
      result += read_escape(text, i, 8, 16);
    } else if (kind == 'N') {
      throw Fault("an escape \\N, which is not supported; write the character itself");
    } else if (is_digit(kind, 8)) {
      --i;
      result += read_escape(text, i, 3, 8);
    } else if (kind != '\n') {
      (result += '\\') += kind;
    }
  }
  return result;
}

}  // namespace gradmill::jinja
