// SPDX-License-Identifier: Apache-2.0
// Ids, texts and learned merges against Hugging Face's library.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tokenizer/bpe_file.h"
#include "tokenizer/bpe_trainer.h"
#include "tokenizer/tokenizer_goldens.h"

namespace gradmill {
namespace {

class TokenizerGoldens : public testing::TestWithParam<std::string> {
 protected:
  nlohmann::json golden = test::tokenizer_golden(GetParam());
  std::vector<std::string> texts = test::tokenizer_golden("texts")["texts"];
};

std::string hash_ids(const std::vector<TokenId>& ids) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const TokenId id : ids) hash = (hash ^ static_cast<uint64_t>(id)) * 0x100000001b3;
  return fmt::format("{:x}", hash & 0xffffffff);
}

TEST_P(TokenizerGoldens, EncodesAsHuggingFace) {
  const auto tokenizer = read_bpe_file(test::tokenizer_golden_path(GetParam()));
  const nlohmann::json& ids = golden["goldens"]["ids"];
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(tokenizer->encode(texts[i]).ids, ids[i].get<std::vector<TokenId>>()) << "text " << i;
  }
  std::istringstream hashes(golden["goldens"]["hashes"].get<std::string>());
  for (int round = 0; round < 2; ++round) {  // the second finds the words in the cache
    hashes.clear();
    hashes.seekg(0);
    for (const std::string& text : texts) {
      std::string hash;
      hashes >> hash;
      EXPECT_EQ(hash_ids(tokenizer->encode(text).ids), hash) << nlohmann::json(text);
      EXPECT_EQ(hash_ids(tokenizer->encode(text, {.offsets = true}).ids), hash) << nlohmann::json(text);
    }
  }
}

TEST_P(TokenizerGoldens, DecodesAsHuggingFace) {
  const auto tokenizer = read_bpe_file(test::tokenizer_golden_path(GetParam()));
  for (const nlohmann::json& sample : golden["goldens"]["decodes"]) {
    const auto ids = sample[0].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer->decode(ids, {.replace_invalid = true}), sample[1].get<std::string>());
    EXPECT_EQ(tokenizer->decode(ids, {.skip_special = true, .replace_invalid = true}), sample[2].get<std::string>());
  }
}

TEST_P(TokenizerGoldens, NamesTokensAsTheFile) {
  const auto tokenizer = read_bpe_file(test::tokenizer_golden_path(GetParam()));
  for (const auto& [token, id] : golden["model"]["vocab"].items()) {
    EXPECT_EQ(tokenizer->token(id), token);
    EXPECT_EQ(tokenizer->id(token), id.get<TokenId>());
  }
  const nlohmann::json& last = golden["added_tokens"].back();
  EXPECT_EQ(tokenizer->vocab_size(), last["id"].get<int64_t>() + 1);
  EXPECT_EQ(tokenizer->token(last["id"]), last["content"].get<std::string>());
}

TEST_P(TokenizerGoldens, LearnsTheSameMerges) {
  const nlohmann::json& settings = golden["goldens"]["train"];
  BpeTrainerOptions options;
  options.vocab_size = settings["vocab_size"];
  options.min_frequency = settings["min_frequency"];
  options.special_tokens = settings["special_tokens"];
  options.split = GetParam() == "cl100k"  ? SplitKind::cl100k
                  : GetParam() == "qwen2" ? SplitKind::qwen2
                                          : SplitKind::gpt2;
  BpeTrainer trainer(options);
  const size_t num_train = test::tokenizer_golden("texts")["num_train"];
  for (size_t i = 0; i < num_train; ++i) trainer.feed(texts[i]);

  const auto learned = nlohmann::json::parse(trainer.train().to_json());
  EXPECT_EQ(learned["model"]["vocab"], golden["model"]["vocab"]);
  nlohmann::json merges = golden["model"]["merges"];
  for (nlohmann::json& merge : merges) {
    if (merge.is_array()) merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  EXPECT_EQ(learned["model"]["merges"], merges);
}

INSTANTIATE_TEST_SUITE_P(Files, TokenizerGoldens, testing::Values("gpt2", "cl100k", "qwen2", "digits"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace gradmill
