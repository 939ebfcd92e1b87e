// SPDX-License-Identifier: Apache-2.0
// The complete workflow on tokens: text, learned BPE, shards or stream, training, and a folder that others can load.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "run/load_run_data.h"
#include "data/tokens/token_folder.h"
#include "run/loaded_run.h"
#include "run/run_folder.h"
#include "run/run_options.h"
#include "run/shard_data.h"
#include "run/token_run_fixture.h"

namespace gradmill::test {
namespace {

TEST_F(TokenRunTest, LearnsFromTextToAFolderWithItsTokenizer) {
  const Run result = run("road");
  EXPECT_GT(result.recorder.steps.front().loss, 5);
  EXPECT_LT(result.recorder.steps.back().loss, 1);
  EXPECT_LT(result.outcome.validation_loss, 1);
  EXPECT_FALSE(result.outcome.sample.empty());
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"}) {
    EXPECT_EQ(read_bytes(newest("road") / name, kWholeFile), read_bytes(tokenizer() / name, kWholeFile)) << name;
  }
  const nlohmann::json config = nlohmann::json::parse(read_bytes(newest("road") / "config.json", kWholeFile));
  EXPECT_EQ(config["model_type"], "llama");
  EXPECT_EQ(config["vocab_size"], kVocab);
  EXPECT_EQ(config["eos_token_id"], 0);
}

TEST_F(TokenRunTest, ResumesBitForBit) {
  config_.model.dropout = 0.1;
  config_.training.micro_batch_size = 3;
  for (const bool streaming : {false, true}) {
    if (streaming) stream();
    const std::string kind = streaming ? "stream" : "shards";
    config_.data.num_workers = 0;
    const Run whole = run(kind + "-whole");
    for (const int64_t stop : {int64_t{1}, int64_t{23}}) {
      for (const int workers : {0, 2}) {
        config_.data.num_workers = workers;
        const std::string name = fmt::format("{}-{}-{}", kind, stop, workers);
        const Run first = run(name, false, stop);
        EXPECT_EQ(first.outcome.status, RunStatus::interrupted);
        const Run second = run(name, true);
        std::vector<double> losses = first.recorder.losses();
        for (double loss : second.recorder.losses()) losses.push_back(loss);
        EXPECT_EQ(losses, whole.recorder.losses()) << name;
        expect_same_bits(second.weights, whole.weights, name);
        EXPECT_EQ(second.outcome.sample, whole.outcome.sample);
      }
    }
  }
}

TEST_F(TokenRunTest, TokenisesOnceAndTakesReadyShards) {
  std::vector<std::string> notes;
  const RunDataOptions options{.note = [&](const std::string& line) { notes.push_back(line); }};
  const auto first = load_run_data(config_, options);
  ASSERT_EQ(notes.size(), 1u) << testing::PrintToString(notes);
  const auto second = load_run_data(config_, options);
  EXPECT_EQ(notes.size(), 1u);
  EXPECT_EQ(second->hash(), first->hash());
  config_.data.path = first->origin();  // the folder of the shards
  const auto ready = load_run_data(config_, options);
  EXPECT_EQ(notes.size(), 1u);
  EXPECT_EQ(ready->steps_per_epoch(), first->steps_per_epoch());
  const StepBatch batch = first->open({}, {})->next(), same = ready->open({}, {})->next();
  EXPECT_EQ(batch.micro.front().tokens, same.micro.front().tokens);
  config_.data.tokenizer = "byte";
  expect_error([&] { load_run_data(config_); }, ExitCode::data, {"not made with this tokenizer", "data.tokenizer"});
}

TEST_F(TokenRunTest, AnotherTokenizerIsRefused) {
  run("first", false, 3);
  const std::vector<std::string> sources = {config_.data.path};
  const std::filesystem::path other = folder_.path() / "other";
  train_tokenizer(list_sources(sources), other, {.bpe = {.vocab_size = kVocab, .special_tokens = {"<end>"}}});
  config_.data.tokenizer = other.string();
  expect_error([&] { run("first", true); }, ExitCode::data,
               {"not the one this run was trained with", "data.tokenizer"});
  config_.data.tokenizer = newest("first").string();  // the checkpoint's own tokenizer
  EXPECT_EQ(run("first", true).outcome.status, RunStatus::completed);
  config_.data = DataConfig{};
  expect_error([&] { run("first", true); }, ExitCode::data, {"trained on tokens", "characters"});
}

TEST_F(TokenRunTest, ALoadedRunNeedsNothingButItsFolder) {
  const Run result = run("loaded");
  LoadedConfig config;
  config.config = config_;
  write_run_files(folder_.path() / "loaded", config, *load_run_data(config_));
  std::filesystem::rename(tokenizer(), folder_.path() / "elsewhere");
  LoadedRun loaded(newest("loaded"));
  EXPECT_EQ(loaded.tokenizer().tokenizer->vocab_size(), kVocab);
  EXPECT_EQ(loaded.end_of_text(), 0);
  std::filesystem::remove_all(folder_.path() / "cache");
  EXPECT_DOUBLE_EQ(loaded.evaluate_validation().loss(), result.outcome.validation_loss);
  const Evaluation other = loaded.evaluate_text((folder_.path() / "validation.jsonl").string());
  EXPECT_LT(other.loss(), 1);
  EXPECT_GT(other.tokens, 200);
  // Every byte except those of each document's first token, which is not predicted. End tokens have no bytes.
  const Tokenizer& by = *loaded.tokenizer().tokenizer;
  int64_t bytes = 0;
  for (const std::string& text : texts_of(documents(40, 7))) {
    const std::vector<TokenId> ids = by.encode(text).ids;
    bytes += std::ssize(text) - std::ssize(by.decode(std::span(ids).first(1)));
  }
  EXPECT_EQ(other.bytes, bytes);
}

TEST_F(TokenRunTest, ALoadedRunHasWeightsAndNothingToTrainThemWith) {
  for (const char* dtype : {"fp32", "bf16"}) {
    for (const double decay : {0.0, 0.9}) {
      config_.machine.dtype = dtype;
      config_.optimizer.ema_decay = decay;
      const std::string name = fmt::format("bare-{}-{}", dtype, decay);
      const Run result = run(name);
      LoadedConfig config;
      config.config = config_;
      write_run_files(folder_.path() / name, config, *load_run_data(config_));
      LoadedRun loaded(newest(name));
      EXPECT_DOUBLE_EQ(loaded.evaluate_validation().loss(), result.outcome.validation_loss) << name;
      const MemoryPlan& plan = loaded.session().memory_plan();
      for (const OwnerBytes& owner : plan.persistent.owners) {
        for (const char* training : {"masters", "gradients", "moments", "averaged", "train inputs"}) {
          EXPECT_TRUE(owner.bytes == 0 || owner.owner.find(training) == std::string::npos) << owner.owner;
        }
      }
      EXPECT_EQ(plan.phase(Phase::train).saved.bytes + plan.phase(Phase::train).scratch.bytes, 0u);
      const MemoryPlan trained = Session::plan(*loaded.run_model().network, session_options(config_));
      EXPECT_LT(2 * plan.persistent.bytes, trained.persistent.bytes) << name;
    }
  }
}

TEST_F(TokenRunTest, BytesNeedNoFile) {
  config_.data.tokenizer = "byte";
  const Run result = run("bytes");
  EXPECT_LT(result.recorder.steps.back().loss, result.recorder.steps.front().loss - 2);
  const RunTokenizer kept = open_run_tokenizer(newest("bytes").string());
  EXPECT_EQ(kept.tokenizer->vocab_size(), 256);
  EXPECT_EQ(kept.tokenizer->encode("h\xc3\xa9!").ids, (std::vector<TokenId>{'h', 0xc3, 0xa9, '!'}));
  EXPECT_EQ(kept.hash, open_run_tokenizer("byte").hash);
}

TEST_F(TokenRunTest, WholeEpochsHaveEveryTokenOnce) {
  for (const char* packing : {"documents", "concatenated"}) {
    config_.data.packing = packing;
    const auto data = load_run_data(config_);
    config_.training.batch_size = 1;
    const auto rows = load_run_data(config_);
    const auto source = rows->open({}, {});
    int64_t tokens = 0, targets = 0;
    for (int64_t step = 0; step < rows->steps_per_epoch(); ++step) {
      const StepBatch batch = source->next();
      tokens += batch.micro.front().cu_seqlens.back();
      targets += batch.num_targets;
    }
    int64_t validation = 0;
    rows->visit_validation(0, [&](const MicroBatch& batch) {
      validation += batch.cu_seqlens.back();
      return true;
    });
    const ShardSet all(list_token_shards(rows->origin()));
    EXPECT_EQ(tokens + validation, all.num_tokens()) << packing;
    EXPECT_NEAR(double(validation) / double(all.num_tokens()), 0.1, 0.02);
    EXPECT_GT(targets, tokens * 8 / 10);
    config_.training.batch_size = 8;
    EXPECT_EQ(data->steps_per_epoch(), (rows->steps_per_epoch() + 7) / 8);
  }
}

TEST_F(TokenRunTest, OneLongTextIsSplitInside) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "the miller grinds corn\n";
  config_.data.path = folder_.write("book.txt", text).string();
  const auto data = load_run_data(config_);
  int64_t validation = 0;
  data->visit_validation(0, [&](const MicroBatch& batch) { return validation += batch.cu_seqlens.back(), true; });
  const int64_t all = ShardSet(list_token_shards(data->origin())).num_tokens();
  EXPECT_NEAR(double(validation) / double(all), 0.1, 0.01);
}

TEST_F(TokenRunTest, AShortEvaluationIsAnEvenChoice) {
  const auto data = load_run_data(config_);
  std::vector<int32_t> once, again, whole;
  const auto into = [](std::vector<int32_t>& tokens) {
    return [&tokens](const MicroBatch& batch) {
      tokens.insert(tokens.end(), batch.tokens.begin(), batch.tokens.begin() + batch.cu_seqlens.back());
      return true;
    };
  };
  data->visit_validation(128, into(once));
  data->visit_validation(0, into(whole));
  data->visit_validation(128, into(again));
  EXPECT_EQ(once, again);
  EXPECT_LE(once.size(), 128u);
  EXPECT_GT(once.size(), 64u);
  EXPECT_GT(whole.size(), 200u);
}

TEST_F(TokenRunTest, InstructionsLearnOnlyAnswers) {
  std::string lines;
  for (int i = 0; i < 60; ++i) {
    lines += fmt::format(R"({{"prompt": "the miller {}", "completion": " grinds corn"}})", i % 7) + "\n";
  }
  config_.data.path = folder_.write("instruct.jsonl", lines).string();
  config_.data.task = "instruct";
  const auto data = load_run_data(config_);
  const Tokenizer& tokenizer = *data->tokenizer().tokenizer;
  const StepBatch step = data->open({}, {})->next();
  const MicroBatch& batch = step.micro.front();
  std::vector<TokenId> learned;
  for (int32_t row = 0; row < batch.cu_seqlens[1]; ++row) {
    const int32_t target = batch.targets[static_cast<size_t>(row)];
    if (target != kIgnoredTarget) learned.push_back(target);
  }
  EXPECT_EQ(tokenizer.decode(learned), " grinds corn<eos>");
  EXPECT_LT(step.num_targets, batch.cu_seqlens.back() / 2);
  const Run result = run("instruct");
  EXPECT_LT(result.recorder.steps.back().loss, 0.5);
  // Shards record which tokens are learned; those of plain text do not.
  RunConfig ready = config_;
  ready.data.path = data->origin();
  EXPECT_EQ(load_run_data(ready)->open({}, {})->next().micro.front().targets, batch.targets);
  config_.data.task = "text";
  config_.data.path = (folder_.path() / "data").string();
  ready.data.path = load_run_data(config_)->origin();
  expect_error([&] { load_run_data(ready); }, ExitCode::data, {"do not mark", "--task instruct"});
  config_.data.task = "instruct";
  config_.data.path = (folder_.path() / "instruct.jsonl").string();
  stream();
  config_.data.validation_path = config_.data.path;
  EXPECT_LT(run("instruct-stream").recorder.steps.back().loss, 0.5);
}

// The error must not come only after the last step.
TEST_F(TokenRunTest, ValidationWithoutATargetIsFoundAfterTheFirstStep) {
  stream();
  config_.data.eos = "none";
  config_.data.validation_path = folder_.write("single.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n").string();
  Recorder recorder;
  Trainer trainer(config_, open_run(config_));
  trainer.attach({.metrics = &recorder});
  expect_error([&] { trainer.run(); }, ExitCode::data, {"no token to predict", "two or more tokens"});
  EXPECT_EQ(recorder.steps.size(), 1u);
}

TEST_F(TokenRunTest, BadRecordsStopOrAreCounted) {
  config_.data.path = folder_.write("bad.jsonl", documents(100, 1) + "{\"text\": 5, \n" + documents(100, 2)).string();
  expect_error([&] { load_run_data(config_); }, ExitCode::data, {"bad.jsonl' line 101"});
  config_.data.bad_records = "skip";
  std::vector<std::string> notes;
  load_run_data(config_, {.note = [&](const std::string& line) { notes.push_back(line); }});
  ASSERT_EQ(notes.size(), 2u) << testing::PrintToString(notes);
  EXPECT_NE(notes[1].find("skipped 1 (1 malformed)"), std::string::npos) << notes[1];
  stream();
  config_.training.steps = 60;
  const Run streamed = run("bad-stream");
  ASSERT_FALSE(streamed.notes.empty());
  EXPECT_NE(streamed.notes.front().find("skipped 1"), std::string::npos) << streamed.notes.front();
}

TEST_F(TokenRunTest, WhatCannotBeUsedIsRefused) {
  config_.data.eos = "<nothing>";
  expect_error([&] { load_run_data(config_); }, ExitCode::usage, {"no token '<nothing>'"});
  config_.data.eos = "auto";
  config_.data.column = "body";
  expect_error([&] { load_run_data(config_); }, ExitCode::data, {"body"});
  config_.data.column = "text";
  config_.data.task = "instruct";
  config_.data.path = folder_.write("a.txt", "text").string();
  expect_error([&] { load_run_data(config_); }, ExitCode::data, {"a.txt", "instruct"});
  config_.data.task = "text";
  config_.data.tokenizer = (folder_.path() / "nowhere").string();
  expect_error([&] { load_run_data(config_); }, ExitCode::data, {"nowhere"});
  config_.data.tokenizer = tokenizer().string();
  expect_error([&] { load_run_data(config_); }, ExitCode::data, {"too few", "data.validation_path"});
}

}  // namespace
}  // namespace gradmill::test
