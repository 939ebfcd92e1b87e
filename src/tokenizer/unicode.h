// SPDX-License-Identifier: Apache-2.0
// Code points and the classes that split patterns ask for. Bytes that are not UTF-8 (RFC 3629) are code points of their
// own, one byte each, of the class `other`: they survive encoding and never stop it.
#pragma once

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

// The code point at `position`, which must lie inside the text.
Utf8Char read_utf8(std::string_view text, size_t position);
// `code_point` must be a Unicode scalar value.
void append_code_point(std::string& text, char32_t code_point);
// Invalid bytes replaced by U+FFFD, one for each maximal part of a character, as the Unicode standard recommends.
std::string replace_invalid_utf8(std::string_view text);

CharClass char_class(char32_t code_point);
// \w
bool is_word_char(char32_t code_point);

}  // namespace gradmill
