// SPDX-License-Identifier: Apache-2.0
// Encoders trained on masked tokens.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/tokens/edited_batches.h"
#include "data/tokens/packed_loader.h"
#include "data/tokens/shard_fixture.h"
#include "run/load_run_data.h"
#include "run/export_model.h"
#include "run/loaded_run.h"
#include "run/masked_data.h"
#include "run/run_folder.h"
#include "run/token_run_fixture.h"

namespace gradmill::test {
namespace {

constexpr TokenId kMaskId = 4;

class MaskedRunTest : public TokenRunTest {
 protected:
  MaskedRunTest() {
    folder_.write("words/vocab.txt",
                  "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nmiller\ngrinds\ncorn\nwhile\nwater\nturns\nmill\n.\n");
    config_.data.tokenizer = (folder_.path() / "words").string();
    config_.data.task = "mask";
    config_.model.style = "bert";
    config_.model.kv_heads = 0;
    config_.optimizer.lr = 3e-3;
    config_.training.steps = 150;
  }

  MaskRule rule() const { return mask_rule(config_, open_run_tokenizer(config_.data.tokenizer)); }

  // Rows of words after [CLS], and some padding.
  static MicroBatch text(int64_t rows) {
    MicroBatch batch = empty_micro_batch(rows + 50, 1);
    for (int64_t i = 0; i < rows; ++i) batch.tokens[static_cast<size_t>(i)] = i == 0 ? 2 : 5 + int32_t(i % 8);
    batch.cu_seqlens = {0, static_cast<int32_t>(rows)};
    batch.num_seqs = 1;
    return batch;
  }
};

TEST_F(MaskedRunTest, HidesAShareOfTheText) {
  const int64_t rows = 20000;
  const MicroBatch before = text(rows);
  MicroBatch batch = before;
  hide_tokens(rule(), MaskUse::train, 3, batch);
  int64_t asked = 0, masked = 0, same = 0;
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    if (batch.targets[i] == kIgnoredTarget) {
      EXPECT_EQ(batch.tokens[i], before.tokens[i]) << i;
      continue;
    }
    ++asked;
    EXPECT_EQ(batch.targets[i], before.tokens[i]) << i;
    masked += batch.tokens[i] == kMaskId;
    same += batch.tokens[i] == before.tokens[i];
  }
  EXPECT_EQ(asked, batch.num_targets);
  EXPECT_EQ(batch.targets[0], kIgnoredTarget) << "[CLS] belongs to no text";
  EXPECT_EQ(batch.targets[static_cast<size_t>(rows)], kIgnoredTarget) << "padding";
  EXPECT_NEAR(double(asked) / double(rows), 0.15, 0.01);
  // The replacement token is the mask, or the original one, once in fourteen.
  EXPECT_NEAR(double(masked) / double(asked), 0.8 + 0.1 / 14, 0.03);
  EXPECT_NEAR(double(same) / double(asked), 0.1 + 0.1 / 14, 0.02);
}

TEST_F(MaskedRunTest, WhatIsHiddenDependsOnSeedStepAndPlaceAlone) {
  MicroBatch whole = text(600), again = text(600), later = text(600), validation = text(600);
  hide_tokens(rule(), MaskUse::train, 1, whole);
  hide_tokens(rule(), MaskUse::train, 1, again);
  hide_tokens(rule(), MaskUse::train, 2, later);
  hide_tokens(rule(), MaskUse::validation, 1, validation);
  EXPECT_EQ(whole.tokens, again.tokens);
  EXPECT_NE(whole.targets, later.targets);
  EXPECT_NE(whole.targets, validation.targets);
  MicroBatch second = text(600);
  second.tokens.erase(second.tokens.begin(), second.tokens.begin() + 200);
  second.tokens.resize(second.targets.size());
  second.cu_seqlens = {0, 400};
  second.token_base = 200;
  hide_tokens(rule(), MaskUse::train, 1, second);
  for (size_t i = 0; i < 400; ++i) EXPECT_EQ(second.targets[i], whole.targets[i + 200]) << i;
}

TEST_F(MaskedRunTest, RanksHideWhatOneRankWouldAndShareItsDivisor) {
  const ShardSet shards(write_shards(folder_, {mixed_lengths(300, 1)}));
  const PackPlan plan(shards, {.context = 64});
  MaskRule rule{.probability = 0.15, .seed = 3, .mask = kMaskId, .vocab = shards.vocab().size};
  rule.kept.resize(static_cast<size_t>(rule.vocab), false);
  PackedLoaderOptions options{.batch_size = 8, .micro_batch_size = 2, .seed = 9};
  options.edit = [&](int64_t step, MicroBatch& batch) { hide_tokens(rule, MaskUse::train, step, batch); };
  PackedLoader single(plan, options);
  std::vector<std::unique_ptr<PackedLoader>> loaders;
  options.num_ranks = 4;
  for (; options.rank < 4; ++options.rank) loaders.push_back(std::make_unique<PackedLoader>(plan, options));
  for (int step = 0; step < 3; ++step) {
    std::vector<StepBatch> ranks;
    for (const auto& loader : loaders) ranks.push_back(loader->next());
    expect_ranks_share(ranks, single.next());
  }
}

TEST_F(MaskedRunTest, LearnsResumesAndGoesOnFromItsFolder) {
  const Run whole = run("mask");
  EXPECT_GT(whole.recorder.steps.front().loss, 2);
  EXPECT_LT(whole.outcome.validation_loss, 1);
  EXPECT_TRUE(whole.outcome.sample.empty());
  run("cut", false, 40);
  expect_same_bits(run("cut", true).weights, whole.weights, "resumed");

  LoadedConfig config;
  config.config = config_;
  write_run_files(folder_.path() / "mask", config, *load_run_data(config_));
  LoadedRun loaded(newest("mask"));
  EXPECT_TRUE(loaded.task().predicts_hidden_tokens());
  EXPECT_DOUBLE_EQ(loaded.evaluate_validation().loss(), whole.outcome.validation_loss);
  const Evaluation other = loaded.evaluate_text((folder_.path() / "validation.jsonl").string());
  EXPECT_LT(other.loss(), 1.5);
  EXPECT_EQ(other.bytes, 0);

  const std::filesystem::path exported = folder_.path() / "exported";
  export_model_to({.from = newest("mask"), .to = exported});
  const auto json = nlohmann::json::parse(read_bytes(exported / "config.json", kWholeFile));
  EXPECT_EQ(json["architectures"][0], "BertForMaskedLM");
  LoadedRun folder(exported);
  EXPECT_TRUE(folder.task().predicts_hidden_tokens());
  const int64_t context = config_.model.context;
  config_.model = ModelConfig();
  config_.model.path = exported.string();
  config_.model.context = context;
  config_.data.tokenizer.clear();
  config_.training.steps = 3;
  EXPECT_LT(run("further").recorder.steps.front().loss, 1.5);
}

TEST_F(MaskedRunTest, StreamsToo) {
  stream();
  config_.training.steps = 5;
  const Run whole = run("stream");
  run("stream-cut", false, 2);
  expect_same_bits(run("stream-cut", true).weights, whole.weights, "resumed");
}

TEST_F(MaskedRunTest, RefusesWhatHasNoMask) {
  config_.data.tokenizer = tokenizer().string();
  expect_error([&] { load_run_data(config_); }, ExitCode::usage, {"a token [MASK]"});
  expect_error([&] { check_run_data(config_); }, ExitCode::usage, {"a token [MASK]"});
}

}  // namespace
}  // namespace gradmill::test
