// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace gradmill {
namespace {

struct Range {
  char32_t first, last;
};

// Assigned in Unicode 15 to 16: distributions still ship a utf8proc that knows 14 only, and token ids must not depend
// on the machine.
constexpr Range kNewLetters[] = {
    {0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3}, {0x10D4A, 0x10D65},
    {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x1123F, 0x11240}, {0x11380, 0x11389}, {0x1138B, 0x1138B},
    {0x1138E, 0x1138E}, {0x11390, 0x113B5}, {0x113B7, 0x113B7}, {0x113D1, 0x113D1}, {0x113D3, 0x113D3},
    {0x11BC0, 0x11BE0}, {0x11F02, 0x11F02}, {0x11F04, 0x11F10}, {0x11F12, 0x11F33}, {0x1342F, 0x1342F},
    {0x13441, 0x13446}, {0x13460, 0x143FA}, {0x16100, 0x1611D}, {0x16D40, 0x16D6C}, {0x18CFF, 0x18CFF},
    {0x1B132, 0x1B132}, {0x1B155, 0x1B155}, {0x1DF25, 0x1DF2A}, {0x1E030, 0x1E06D}, {0x1E4D0, 0x1E4EB},
    {0x1E5D0, 0x1E5ED}, {0x1E5F0, 0x1E5F0}, {0x2B739, 0x2B739}, {0x2EBF0, 0x2EE5D}, {0x31350, 0x323AF}};
constexpr Range kNewNumbers[] = {{0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9}, {0x11F50, 0x11F59},
                                 {0x16130, 0x16139}, {0x16D70, 0x16D79}, {0x1CCF0, 0x1CCF9}, {0x1D2C0, 0x1D2D3},
                                 {0x1E4F0, 0x1E4F9}, {0x1E5F1, 0x1E5FA}};

bool contains(const Range* first, const Range* last, char32_t code_point) {
  const Range* range = std::lower_bound(first, last, code_point, [](const Range& r, char32_t c) { return r.last < c; });
  return range != last && range->first <= code_point;
}

CharClass lookup_class(char32_t code_point) {
  if (code_point > 0x10FFFF) return CharClass::other;
  if ((code_point >= 9 && code_point <= 13) || code_point == 0x85) return CharClass::space;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::number;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharClass::space;
    case UTF8PROC_CATEGORY_CN:
      if (contains(std::begin(kNewLetters), std::end(kNewLetters), code_point)) return CharClass::letter;
      if (contains(std::begin(kNewNumbers), std::end(kNewNumbers), code_point)) return CharClass::number;
      return CharClass::other;
    default:
      return CharClass::other;
  }
}

struct Sequence {
  Utf8Char character;
  uint32_t num_valid = 1;  // bytes of the character, or of the beginning of one that then breaks off
};

Sequence read_sequence(std::string_view text, size_t position) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[position + i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {{lead, 1}, 1};
  if (lead < 0xC2 || lead > 0xF4) return {};
  const uint32_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t value = lead & (0x7Fu >> length);
  for (uint32_t i = 1; i < length; ++i) {
    // The second byte's range rules out overlong forms, surrogates and values over U+10FFFF.
    const unsigned low = i > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = i > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (position + i >= text.size() || byte(i) < low || byte(i) > high) return {{kInvalidByte, 1}, i};
    value = value << 6 | (byte(i) & 0x3F);
  }
  return {{value, length}, length};
}

}  // namespace

Utf8Char read_utf8(std::string_view text, size_t position) { return read_sequence(text, position).character; }

void append_code_point(std::string& text, char32_t code_point) {
  std::array<utf8proc_uint8_t, 4> bytes;
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes.data());
  text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(size));
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Sequence sequence = read_sequence(text, i);
    if (sequence.character.value == kInvalidByte)
      result += "\xEF\xBF\xBD";
    else
      result += text.substr(i, sequence.num_valid);
    i += sequence.num_valid;
  }
  return result;
}

CharClass char_class(char32_t code_point) {
  static const auto ascii = [] {
    std::array<CharClass, 128> classes;
    for (char32_t c = 0; c < 128; ++c) classes[c] = lookup_class(c);
    return classes;
  }();
  return code_point < 128 ? ascii[code_point] : lookup_class(code_point);
}

bool is_word_char(char32_t code_point) {
  if (code_point > 0x10FFFF) return false;
  if (char_class(code_point) == CharClass::letter) return true;
  // Joiners, and the circled and squared letters, which are alphabetic without being letters.
  constexpr Range kOthers[] = {
      {0x200C, 0x200D}, {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
  if (contains(std::begin(kOthers), std::end(kOthers), code_point)) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

}  // namespace gradmill
