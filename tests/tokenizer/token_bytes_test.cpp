// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/token_bytes.h"

#include <gtest/gtest.h>

#include "tokenizer/load_tokenizer.h"
#include "tokenizer/plain_tokenizers.h"
#include "tokenizer/tokenizer_goldens.h"

namespace gradmill {
namespace {

int64_t bytes_of(const Tokenizer& tokenizer, std::string_view text) {
  TokenBytes bytes(tokenizer);
  int64_t sum = 0;
  for (const TokenId id : tokenizer.encode(text).ids) sum += bytes.of(id);
  return sum;
}

constexpr std::string_view kText = "The mill's wheel turns, caf\u00e9 \u4f60\u597d \U0001F642 x";

TEST(TokenBytes, AddUpToTheText) {
  for (const char* name : {"gpt2", "cl100k", "qwen2"}) {
    const auto tokenizer = load_tokenizer(test::tokenizer_golden_path(name));
    EXPECT_EQ(bytes_of(*tokenizer, kText), std::ssize(kText)) << name;
    EXPECT_EQ(bytes_of(*tokenizer, " a  b\n\tc"), 8) << name;
  }
  EXPECT_EQ(bytes_of(*load_tokenizer(test::tokenizer_golden_path("gemma")), " the  mill turns"), 16);
  EXPECT_EQ(bytes_of(ByteTokenizer(), kText), std::ssize(kText));
  EXPECT_EQ(bytes_of(CharTokenizer(kText), kText), std::ssize(kText));
}

// These add a space in front of a text. It is a byte that their models predict.
TEST(TokenBytes, ASpaceInFrontCounts) {
  for (const char* name : {"llama2", "spm_bpe"}) {
    auto path = test::tokenizer_golden_path(name);
    if (name == std::string_view("spm_bpe")) path.replace_extension(".model");
    const auto tokenizer = load_tokenizer(path);
    EXPECT_EQ(bytes_of(*tokenizer, "the mill turns"), 15) << name;
  }
}

TEST(TokenBytes, SpecialTokensAndUnknownIdsHaveNone) {
  const auto tokenizer = load_tokenizer(test::tokenizer_golden_path("gpt2"));
  TokenBytes bytes(*tokenizer);
  EXPECT_EQ(bytes.of(*tokenizer->id("<|endoftext|>")), 0);
  EXPECT_EQ(bytes.of(-100), 0);
  EXPECT_EQ(bytes.of(static_cast<TokenId>(tokenizer->vocab_size())), 0);
}

}  // namespace
}  // namespace gradmill
