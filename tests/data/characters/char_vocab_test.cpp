// SPDX-License-Identifier: Apache-2.0
#include "data/characters/char_vocab.h"

#include "support/errors.h"
#include "core/utf8.h"

namespace gradmill::test {
namespace {

TEST(Utf8, EveryCodePointComesBack) {
  for (char32_t point = 0; point <= 0x10ffff; ++point) {
    if (point >= 0xd800 && point < 0xe000) continue;
    std::string text;
    append_utf8(text, point);
    const auto decoded = decode_utf8(text + "x");
    ASSERT_TRUE(decoded) << static_cast<uint32_t>(point);
    ASSERT_EQ(decoded->value, point);
    ASSERT_EQ(decoded->num_bytes, text.size());
    ASSERT_FALSE(decode_utf8(std::string_view(text).substr(0, text.size() - 1))) << static_cast<uint32_t>(point);
  }
}

TEST(Utf8, RefusesWhatTheStandardForbids) {
  for (std::string_view bytes :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf",  // overlong
        "\xed\xa0\x80", "\xed\xbf\xbf",                                              // surrogates
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",                              // too large
        "\xc3(", "\xe2\x82(", "\xf0\x9f\x98("}) {
    EXPECT_FALSE(decode_utf8(bytes)) << testing::PrintToString(bytes);
  }
}

TEST(CharVocab, NumbersCodePointsInOrder) {
  const CharVocab vocab = CharVocab::from_text("zeβra 😀é\na");
  EXPECT_EQ(vocab.characters(), "\n aerzéβ😀");
  EXPECT_EQ(vocab.size(), 9);
  EXPECT_EQ(vocab.encode("a😀\n"), (std::vector<int32_t>{2, 8, 0}));
  for (const char* unknown : {"b", "γ", "\xf4\x8f\xbf\xbf"}) EXPECT_THROW(vocab.encode(unknown), Error) << unknown;
}

TEST(CharVocab, DecodeInvertsEncode) {
  const std::string text = "To be, or not to be: naïve — 東京 😀\r\n";
  const CharVocab vocab = CharVocab::from_text(text);
  EXPECT_EQ(vocab.decode(vocab.encode(text)), text);
  EXPECT_TRUE(vocab.encode("").empty());
}

TEST(CharVocab, ItsCharactersAreTheVocabulary) {
  const CharVocab vocab = CharVocab::from_text("the quick βrown fox");
  const CharVocab again = CharVocab::from_text(vocab.characters());
  EXPECT_EQ(again.characters(), vocab.characters());
  EXPECT_EQ(again.encode("fox βrown"), vocab.encode("fox βrown"));
}

TEST(CharVocab, ErrorsSayWhereAndWhat) {
  const CharVocab vocab = CharVocab::from_text("abc");
  expect_error([&] { vocab.encode("ab€c"); }, ExitCode::data, {"'€'", "U+20AC", "byte 2", "training text"});
  expect_error([&] { vocab.encode("a\n"); }, ExitCode::data, {"U+000A", "byte 1"});
  expect_error([&] { vocab.encode("abc\xff"); }, ExitCode::data, {"UTF-8", "byte 3"});
  expect_error([] { CharVocab::from_text("a\xc3"); }, ExitCode::data, {"UTF-8", "byte 1"});
  expect_error([] { CharVocab::from_text(""); }, ExitCode::data, {"empty"});
}

}  // namespace
}  // namespace gradmill::test
