// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/split_scanner.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tokenizer/byte_level.h"
#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

using Words = std::vector<std::string>;

Words split(SplitKind kind, std::string_view text) {
  Words words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = next_split(kind, text, begin);
    EXPECT_GT(end, begin);
    words.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

TEST(SplitScanner, Gpt2) {
  EXPECT_EQ(split(SplitKind::gpt2, "I'll  go 'S 12x!?\n\n y "),
            (Words{"I", "'ll", " ", " go", " '", "S", " 12", "x", "!?", "\n\n", " y", " "}));
}

TEST(SplitScanner, Cl100k) {
  EXPECT_EQ(split(SplitKind::cl100k, "I'LL\tgo 12345 !?\r\n \n  y"),
            (Words{"I", "'LL", "\tgo", " ", "123", "45", " !?\r\n", " \n", " ", " y"}));
  EXPECT_EQ(split(SplitKind::cl100k, "'\u017fx"), (Words{"'\u017f", "x"}));
}

TEST(SplitScanner, Qwen2TakesSingleDigits) { EXPECT_EQ(split(SplitKind::qwen2, "a12"), (Words{"a", "1", "2"})); }

TEST(SplitScanner, Digits) {
  EXPECT_EQ(split(SplitKind::digits, "ab 12c"), (Words{"ab ", "1", "2", "c"}));
  EXPECT_EQ(split(SplitKind::digit_runs, "ab 12c"), (Words{"ab ", "12", "c"}));
}

TEST(SplitScanner, InvalidBytesAreSymbols) {
  EXPECT_EQ(split(SplitKind::gpt2, "a\xff\xc3 \xe2\x82z"), (Words{"a", "\xff\xc3", " \xe2\x82", "z"}));
}

TEST(SplitScanner, KnowsPatternsToTheLetter) {
  EXPECT_EQ(split_kind_of_pattern(kCl100kPattern), SplitKind::cl100k);
  EXPECT_EQ(split_kind_of_pattern(kQwen2Pattern), SplitKind::qwen2);
  EXPECT_EQ(split_kind_of_pattern(std::string(kGpt2Pattern) + " "), std::nullopt);
}

TEST(ByteLevel, SpellsAllBytesAndBack) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  EXPECT_EQ(unspell_bytes(spell_bytes(bytes)), bytes);
  EXPECT_EQ(spell_bytes("\n hi"), "ĊĠhi");
  EXPECT_EQ(unspell_bytes("a b"), std::nullopt);
  EXPECT_EQ(unspell_bytes("日"), std::nullopt);
}

TEST(Unicode, ReplacesMaximalPartsOfCharacters) {
  EXPECT_EQ(replace_invalid_utf8("a\xe2\x82z\xff\xfe\xf0\x9f\x98"), "a\uFFFDz\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(replace_invalid_utf8("\xed\xa0\x80\xc0\xaf"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
}

}  // namespace
}  // namespace gradmill
