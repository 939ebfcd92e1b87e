// SPDX-License-Identifier: Apache-2.0
// Text that arrives token by token never shows a part of a character.
#include "session/text_stream.h"

#include <gtest/gtest.h>

#include "tokenizer/plain_tokenizers.h"
#include "tokenizer/unicode.h"

namespace gradmill::test {
namespace {

// Each byte is a token, which is the hardest case.
std::vector<std::string> parts_of(std::string_view text, std::string_view prompt = "") {
  const ByteTokenizer bytes;
  TextStream stream(bytes, bytes.encode(prompt).ids);
  std::vector<std::string> parts;
  for (TokenId id : bytes.encode(text).ids) parts.push_back(stream.add(id));
  parts.push_back(stream.finish());
  return parts;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

TEST(TextStream, KeepsBytesBackUntilACharacterIsWhole) {
  EXPECT_EQ(parts_of("a\xc3\xa9z"), (std::vector<std::string>{"a", "", "\xc3\xa9", "z", ""}));
  EXPECT_EQ(parts_of("\xf0\x9f\x98\x80"), (std::vector<std::string>{"", "", "", "\xf0\x9f\x98\x80", ""}));
}

TEST(TextStream, IsTheTextWhateverTheLength) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "mill \xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80 ";
  for (const char* prompt : {"", "x", "a long prompt \xe2\x82\xac"}) EXPECT_EQ(joined(parts_of(text, prompt)), text);
}

TEST(TextStream, WhatIsNoTextIsReplacedAtOnce) {
  EXPECT_EQ(parts_of("\xff"
                     "a"),
            (std::vector<std::string>{"\xef\xbf\xbd", "a", ""}));
  // Interrupted by another character, by a byte that cannot follow, and by the end.
  for (const char* text : {"\xe2\x82"
                           "a",
                           "\xf0\x9f\xff", "ab\xe2\x82", "\x80\x80\x80\x80\x80", "\xf0\x80\x80\x80"}) {
    const std::vector<std::string> parts = parts_of(text);
    EXPECT_EQ(joined(parts), replace_invalid_utf8(text));
    for (const std::string& part : parts) EXPECT_EQ(part, replace_invalid_utf8(part));
  }
}

}  // namespace
}  // namespace gradmill::test
