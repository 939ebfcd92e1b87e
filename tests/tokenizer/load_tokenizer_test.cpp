// SPDX-License-Identifier: Apache-2.0
// Files and folders of each kind; SentencePiece compared with its own library; and the tokenizers that need no file.
#include "tokenizer/load_tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "core/error.h"
#include "support/temporary_folder.h"
#include "tokenizer/plain_tokenizers.h"
#include "tokenizer/tokenizer_goldens.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<TokenId>;

class LoadTokenizer : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { temporary.write(name, text); }

  test::TemporaryFolder temporary;
  fs::path folder = temporary.path();
};

TEST_F(LoadTokenizer, VocabTxt) {
  write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nHey\nhey\n##s\n,\r\n");
  const auto tokenizer = load_tokenizer(folder);
  EXPECT_EQ(tokenizer->encode("H\u00e9ys, [MASK] x").ids, (Ids{6, 7, 8, 4, 1}));
  EXPECT_EQ(tokenizer->sequence_template().build(Ids{6}, Ids{8}).ids, (Ids{2, 6, 3, 8, 3}));
  EXPECT_EQ(tokenizer->decode(Ids{6, 7, 8}), "heys,");
  EXPECT_EQ(tokenizer->vocab_size(), 9);
  write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(load_tokenizer(folder)->encode("Hey").ids, Ids{5});
  write("vocab.txt", "a\nb\na\n");
  EXPECT_THROW(load_tokenizer(folder), Error);
  write("vocab.txt", "a\n");
  EXPECT_THROW(load_tokenizer(folder), Error);
}

TEST_F(LoadTokenizer, FoldersInOrder) {
  EXPECT_THROW(load_tokenizer(folder), Error);
  EXPECT_THROW(load_tokenizer(folder / "none.json"), Error);
  write("notes.md", "");
  EXPECT_THROW(load_tokenizer(folder / "notes.md"), Error);
  write("vocab.txt", "[UNK]\n");
  EXPECT_EQ(load_tokenizer(folder)->vocab_size(), 1);
  fs::copy(test::tokenizer_golden_path("spm_bpe").replace_extension(".model"), folder / "tokenizer.model");
  EXPECT_GT(load_tokenizer(folder)->vocab_size(), 100);
  fs::copy(test::tokenizer_golden_path("gpt2"), folder / "tokenizer.json");
  EXPECT_TRUE(load_tokenizer(folder)->id("<|endoftext|>"));
}

class SentencePieceGoldens : public testing::TestWithParam<std::string> {};

TEST_P(SentencePieceGoldens, IdsAndTexts) {
  const auto tokenizer = load_tokenizer(test::tokenizer_golden_path(GetParam()).replace_extension(".model"));
  const nlohmann::json golden = test::tokenizer_golden(GetParam() + "_model");
  const std::vector<std::string> texts = test::tokenizer_golden("texts")["texts"];
  std::istringstream hashes(golden["hashes"].get<std::string>());
  for (const std::string& text : texts) {
    std::string hash;
    hashes >> hash;
    EXPECT_EQ(test::hash_ids(tokenizer->encode(text, {.parse_special = false}).ids), hash) << nlohmann::json(text);
    EXPECT_EQ(test::hash_ids(tokenizer->encode(text, {.parse_special = false, .offsets = true}).ids), hash);
  }
  for (const nlohmann::json& sample : golden["decodes"]) {
    EXPECT_EQ(tokenizer->decode(sample[0].get<Ids>()), sample[1].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Files, SentencePieceGoldens, testing::Values("spm_unigram", "spm_bpe"),
                         [](const auto& test) { return test.param; });

TEST(SentencePiece, ControlPiecesAreSpecial) {
  const auto tokenizer = load_tokenizer(test::tokenizer_golden_path("spm_unigram").replace_extension(".model"));
  const TokenId cls = *tokenizer->id("[CLS]"), sep = *tokenizer->id("[SEP]"), mask = *tokenizer->id("[MASK]");
  EXPECT_EQ(mask, tokenizer->vocab_size() - 1);
  EXPECT_EQ(tokenizer->encode("[CLS]").ids, Ids{cls});
  EXPECT_GT(tokenizer->encode("[CLS]", {.parse_special = false}).ids.size(), 1u);
  EXPECT_EQ(tokenizer->sequence_template().build(Ids{9}).ids, (Ids{cls, 9, sep}));
}

TEST(ByteTokenizer, IsLossless) {
  const ByteTokenizer tokenizer;
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  const Encoding encoding = tokenizer.encode(bytes, {.offsets = true});
  EXPECT_EQ(encoding.ids[200], 200);
  EXPECT_EQ(encoding.offsets[7], (TokenSpan{7, 8}));
  EXPECT_EQ(tokenizer.decode(encoding.ids), bytes);
  for (TokenId id = 0; id < 256; ++id) EXPECT_EQ(tokenizer.id(*tokenizer.token(id)), id);
  EXPECT_EQ(tokenizer.token(256), std::nullopt);
  EXPECT_THROW(tokenizer.decode(Ids{256}), Error);
}

TEST(CharTokenizer, NumbersCharactersInOrder) {
  const CharTokenizer tokenizer("bé a日b");
  EXPECT_EQ(tokenizer.vocab_size(), 5);
  const Encoding encoding = tokenizer.encode("a日é", {.offsets = true});
  EXPECT_EQ(encoding.ids, (Ids{1, 4, 3}));
  EXPECT_EQ(encoding.offsets[1], (TokenSpan{1, 4}));
  EXPECT_EQ(tokenizer.decode(encoding.ids), "a日é");
  EXPECT_EQ(tokenizer.token(4), "日");
  EXPECT_EQ(tokenizer.id("日"), 4);
  EXPECT_EQ(tokenizer.id("ab"), std::nullopt);
  EXPECT_THROW(tokenizer.encode("c"), Error);
  EXPECT_THROW(tokenizer.encode("\xff"), Error);
  EXPECT_THROW(CharTokenizer(""), Error);
  EXPECT_THROW(CharTokenizer("\xff"), Error);
}

}  // namespace
}  // namespace gradmill
