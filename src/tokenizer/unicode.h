// SPDX-License-Identifier: Apache-2.0
// Code points and the classes used in split patterns. A byte that is not valid UTF-8 (RFC 3629) is a code point by
// itself, of the class `other`. Such bytes survive encoding and never stop it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gradmill {

enum class CharClass : uint8_t { other, letter, number, space };  // \p{L}, \p{N}, \s

inline constexpr char32_t kInvalidByte = 0xFFFFFFFF;

struct Utf8Char {
  char32_t value = kInvalidByte;
  uint32_t num_bytes = 1;
};

// The code point at `position`, which must be inside the text.
Utf8Char read_long_utf8(std::string_view text, size_t position);
inline Utf8Char read_utf8(std::string_view text, size_t position) {
  const auto byte = static_cast<unsigned char>(text[position]);
  return byte < 0x80 ? Utf8Char{byte, 1} : read_long_utf8(text, position);
}
// The number of bytes of the character at `position` or, if it is incomplete, of its valid part.
uint32_t utf8_part_length(std::string_view text, size_t position);
// `code_point` must be a Unicode scalar value.
void append_code_point(std::string& text, char32_t code_point);
// Replaces invalid bytes with U+FFFD, one for each maximal part of a character, as the Unicode standard recommends.
std::string replace_invalid_utf8(std::string_view text);

namespace unicode {
CharClass lookup_class(char32_t code_point);  // for code points beyond ASCII
constexpr auto kAsciiClasses = [] {
  std::array<CharClass, 128> classes{};
  for (char32_t c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool space = c == ' ' || (c >= 9 && c <= 13);
    classes[c] = letter                   ? CharClass::letter
                 : space                  ? CharClass::space
                 : (c >= '0' && c <= '9') ? CharClass::number
                                          : CharClass::other;
  }
  return classes;
}();
}  // namespace unicode

inline CharClass char_class(char32_t code_point) {
  return code_point < 128 ? unicode::kAsciiClasses[code_point] : unicode::lookup_class(code_point);
}
// Whether the code point matches \w.
bool is_word_char(char32_t code_point);
// Like Rust's is_numeric, which uses a newer Unicode version than patterns do.
bool is_numeric(char32_t code_point);
// Whether the code point matches \d.
bool is_digit(char32_t code_point);

// According to Hugging Face's normalizers and pre-tokenizers, which do not always follow current Unicode.
bool is_punctuation(char32_t code_point);
bool is_removed_by_bert(char32_t code_point);
bool is_nonspacing_mark(char32_t code_point);
bool is_combining_mark(char32_t code_point);
// Whether the code point is a mark that decomposition reorders.
bool is_ordered_mark(char32_t code_point);
bool has_decomposition(char32_t code_point, bool compatible);
bool is_cjk(char32_t code_point);
// Appends the lower-case form of a character, or the character itself if it has none.
void append_lower(std::string& text, char32_t code_point);

bool is_ascii(std::string_view text);

}  // namespace gradmill
