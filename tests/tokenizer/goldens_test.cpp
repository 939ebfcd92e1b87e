// SPDX-License-Identifier: Apache-2.0
// Compares ids, texts and learned merges with Hugging Face's library.
#include <gtest/gtest.h>

#include <sstream>

#include "tokenizer/tokenizer_file.h"
#include "tokenizer/bpe_trainer.h"
#include "tokenizer/tokenizer_goldens.h"

namespace gradmill {
namespace {

class TokenizerGoldens : public testing::TestWithParam<std::string> {
 protected:
  nlohmann::json golden = test::tokenizer_golden(GetParam());
  std::vector<std::string> texts = test::tokenizer_golden("texts")["texts"];
};

TEST_P(TokenizerGoldens, EncodesAsHuggingFace) {
  const auto tokenizer = test::golden_tokenizer(GetParam());
  const nlohmann::json& ids = golden["goldens"]["ids"];
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(tokenizer->encode(texts[i]).ids, ids[i].get<std::vector<TokenId>>()) << "text " << i;
  }
  std::istringstream hashes(golden["goldens"]["hashes"].get<std::string>());
  for (int round = 0; round < 2; ++round) {  // the second round finds the words in the cache
    hashes.clear();
    hashes.seekg(0);
    for (const std::string& text : texts) {
      std::string hash;
      hashes >> hash;
      EXPECT_EQ(test::hash_ids(tokenizer->encode(text).ids), hash) << nlohmann::json(text);
      EXPECT_EQ(test::hash_ids(tokenizer->encode(text, {.offsets = true}).ids), hash) << nlohmann::json(text);
    }
  }
}

TEST_P(TokenizerGoldens, DecodesAsHuggingFace) {
  const auto tokenizer = test::golden_tokenizer(GetParam());
  for (const nlohmann::json& sample : golden["goldens"]["decodes"]) {
    const auto ids = sample[0].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer->decode(ids, {.replace_invalid = true}), sample[1].get<std::string>());
    EXPECT_EQ(tokenizer->decode(ids, {.skip_special = true, .replace_invalid = true}), sample[2].get<std::string>());
  }
}

TEST_P(TokenizerGoldens, NamesTokensAsTheFile) {
  const auto tokenizer = test::golden_tokenizer(GetParam());
  const nlohmann::json& vocab = golden["model"]["vocab"];
  for (const auto& [key, value] : vocab.items()) {
    const std::string token = vocab.is_array() ? value[0].get<std::string>() : key;
    const TokenId id = vocab.is_array() ? std::stoi(key) : value.get<TokenId>();
    EXPECT_EQ(tokenizer->token(id), token);
    EXPECT_EQ(tokenizer->id(token), id);
  }
  const nlohmann::json& last = golden["added_tokens"].back();
  EXPECT_EQ(tokenizer->vocab_size(), last["id"].get<int64_t>() + 1);
  EXPECT_EQ(tokenizer->token(last["id"]), last["content"].get<std::string>());
}

TEST_P(TokenizerGoldens, BuildsPairsAsHuggingFace) {
  const auto tokenizer = test::golden_tokenizer(GetParam());
  for (const nlohmann::json& pair : golden["goldens"]["pairs"]) {
    const auto first = tokenizer->encode(texts[pair[0]]).ids, second = tokenizer->encode(texts[pair[1]]).ids;
    const Sequence built = tokenizer->sequence_template().build(first, second, {.max_length = pair[2]});
    EXPECT_EQ(built.ids, pair[3].get<std::vector<TokenId>>());
    EXPECT_EQ(built.type_ids, pair[4].get<std::vector<int32_t>>());
  }
}

class LearnedGoldens : public TokenizerGoldens {};

TEST_P(LearnedGoldens, LearnsTheSameMerges) {
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

INSTANTIATE_TEST_SUITE_P(Files, TokenizerGoldens,
                         testing::Values("gpt2", "cl100k", "qwen2", "digits", "bert", "deberta", "llama2", "gemma",
                                         "suffixes", "words"),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(Files, LearnedGoldens, testing::Values("gpt2", "cl100k", "qwen2", "digits"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace gradmill
