// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <span>

#include "tokenizer/unicode_tables.h"

namespace gradmill {
namespace {

using Range = unicode::CodePointRange;

// Letters assigned in Unicode 15 and 16. Distributions still ship a utf8proc that lacks them, and token ids must not
// depend on the machine.
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

constexpr Range kNewMarks[] = {{0x897, 0x897},     {0x10D69, 0x10D6D}, {0x10EFC, 0x10EFF}, {0x11241, 0x11241},
                               {0x113B8, 0x113C0}, {0x113C2, 0x113C2}, {0x113C5, 0x113C5}, {0x113C7, 0x113CA},
                               {0x113CC, 0x113D0}, {0x113D2, 0x113D2}, {0x113E1, 0x113E2}, {0x11F00, 0x11F01},
                               {0x11F03, 0x11F03}, {0x11F34, 0x11F3A}, {0x11F3E, 0x11F42}, {0x11F5A, 0x11F5A},
                               {0x13440, 0x13440}, {0x13447, 0x13455}, {0x1611E, 0x1612F}, {0x1E08F, 0x1E08F},
                               {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}};

bool contains(std::span<const Range> ranges, char32_t code_point) {
  const auto range = std::ranges::lower_bound(ranges, code_point, {}, &Range::last);
  return range != ranges.end() && range->first <= code_point;
}

struct ByteSequence {
  Utf8Char character;
  uint32_t num_valid = 1;  // length of the character or, if it is incomplete, of its valid part
};

ByteSequence read_sequence(std::string_view text, size_t position) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[position + i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {{lead, 1}, 1};
  if (lead < 0xC2 || lead > 0xF4) return {};
  const uint32_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t value = lead & (0x7Fu >> length);
  for (uint32_t i = 1; i < length; ++i) {
    // The range of the second byte excludes overlong forms, surrogates and values over U+10FFFF.
    const unsigned low = i > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = i > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (position + i >= text.size() || byte(i) < low || byte(i) > high) return {{kInvalidByte, 1}, i};
    value = value << 6 | (byte(i) & 0x3F);
  }
  return {{value, length}, length};
}

}  // namespace

CharClass unicode::lookup_class(char32_t code_point) {
  if (code_point > 0x10FFFF) return CharClass::other;
  if (code_point == 0x85) return CharClass::space;
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
      if (contains(kNewLetters, code_point)) return CharClass::letter;
      if (contains(kNewNumbers, code_point)) return CharClass::number;
      return CharClass::other;
    default:
      return CharClass::other;
  }
}

Utf8Char read_long_utf8(std::string_view text, size_t position) { return read_sequence(text, position).character; }

uint32_t utf8_part_length(std::string_view text, size_t position) { return read_sequence(text, position).num_valid; }

void append_code_point(std::string& text, char32_t code_point) {
  std::array<utf8proc_uint8_t, 4> bytes;
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes.data());
  text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(size));
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const ByteSequence sequence = read_sequence(text, i);
    if (sequence.character.value == kInvalidByte)
      result += "\xEF\xBF\xBD";
    else
      result += text.substr(i, sequence.num_valid);
    i += sequence.num_valid;
  }
  return result;
}

bool is_word_char(char32_t code_point) {
  if (code_point > 0x10FFFF) return false;
  if (char_class(code_point) == CharClass::letter) return true;
  // Joiners, and the circled and squared letters, which are alphabetic but not letters.
  constexpr Range kOthers[] = {
      {0x200C, 0x200D}, {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
  if (contains(kOthers, code_point) || contains(kNewMarks, code_point)) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return is_digit(code_point);
  }
}

bool is_numeric(char32_t code_point) {
  if (code_point < 0x80) return char_class(code_point) == CharClass::number;
  constexpr Range kNewer[] = {{0x11DE0, 0x11DE9}, {0x16FF4, 0x16FF6}};
  return char_class(code_point) == CharClass::number || contains(kNewer, code_point);
}

bool is_digit(char32_t code_point) {
  if (utf8proc_category(static_cast<utf8proc_int32_t>(code_point)) == UTF8PROC_CATEGORY_ND) return true;
  const bool kaktovik = code_point >= 0x1D2C0 && code_point <= 0x1D2D3;  // numbers, but not digits
  return contains(kNewNumbers, code_point) && !kaktovik;
}

bool is_punctuation(char32_t code_point) { return contains(unicode::kPunctuation, code_point); }
bool is_removed_by_bert(char32_t code_point) { return contains(unicode::kBertRemoved, code_point); }
bool is_nonspacing_mark(char32_t code_point) { return contains(unicode::kNonspacingMarks, code_point); }
bool is_combining_mark(char32_t code_point) { return contains(unicode::kCombiningMarks, code_point); }

bool is_ordered_mark(char32_t code_point) { return contains(unicode::kOrderedMarks, code_point); }

bool has_decomposition(char32_t code_point, bool compatible) {
  if (code_point >= 0xAC00 && code_point <= 0xD7A3) return true;
  return compatible ? contains(unicode::kCompatible, code_point) : contains(unicode::kCanonical, code_point);
}

bool is_cjk(char32_t code_point) {
  constexpr Range kCjk[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
                            {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  return contains(kCjk, code_point);
}

void append_lower(std::string& text, char32_t code_point) {
  if (code_point < 0x80) {
    const char letter = static_cast<char>(code_point);
    text += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
    return;
  }
  if (code_point == 0x130) {
    text += "i\u0307";
    return;
  }
  const auto run = std::ranges::lower_bound(unicode::kLowerRuns, code_point, {}, &unicode::LowerRun::last);
  const bool capital = run != std::end(unicode::kLowerRuns) && run->first <= code_point &&
                       (code_point - run->first) % static_cast<char32_t>(run->step) == 0;
  append_code_point(text, capital ? static_cast<char32_t>(static_cast<int64_t>(code_point) + run->delta) : code_point);
}

bool is_ascii(std::string_view text) {
  uint64_t bits = 0;
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    bits |= word;
  }
  for (; i < text.size(); ++i) bits |= static_cast<unsigned char>(text[i]);
  return (bits & 0x8080808080808080) == 0;
}

}  // namespace gradmill
