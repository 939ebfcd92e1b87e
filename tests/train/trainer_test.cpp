// SPDX-License-Identifier: Apache-2.0
// The training loop: it learns, it reports, and it stops when training diverges.
#include "run/load_run_data.h"
#include "train/trainer_fixture.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model_files/families/registry.h"
#include "support/errors.h"
#include "run/evaluation.h"
#include "run/model_folder.h"
#include "run/run_options.h"
#include "session/sampler.h"

namespace gradmill::test {
namespace {

TEST_F(TrainerTest, LearnsAndReports) {
  config_.model.dropout = 0;
  for (const char* style : {"gpt2", "qwen3"}) {
    config_.model.style = style;
    const Run result = run(style);
    ASSERT_EQ(result.recorder.steps.size(), 60u);
    EXPECT_GT(result.recorder.steps.front().loss, 2.5);
    EXPECT_LT(result.recorder.steps.back().loss, 0.5);
    ASSERT_EQ(result.recorder.evals.size(), 3u);  // after steps 25 and 50, and at the end
    EXPECT_EQ(result.recorder.evals.back().step, 60);
    EXPECT_LT(result.outcome.validation_loss, 0.5);
    EXPECT_EQ(result.outcome.sample.size(), 40u);
    EXPECT_NE(result.outcome.sample.find("mill"), std::string::npos) << result.outcome.sample;
  }
}

// Steps of 16 tokens; evaluations are a hundred times larger.
TEST_F(TrainerTest, EvaluationsAreNoPartOfSteps) {
  config_.training.batch_size = 1;
  config_.training.steps = 20;
  config_.eval.every_steps = 1;
  config_.eval.tokens = 0;
  config_.eval.batch_size = 1;
  const Run result = run("evaluations");
  double steps = 0, evals = 0;
  for (const StepMetrics& step : result.recorder.steps) steps += step.step_ms * 1e-3;
  for (const EvalMetrics& eval : result.recorder.evals) evals += eval.seconds;
  EXPECT_LT(steps, evals / 2);
  EXPECT_GT(result.recorder.summary.seconds, steps + evals);
  ASSERT_EQ(result.recorder.summary.remarks.size(), 1u);
  EXPECT_TRUE(result.recorder.summary.remarks[0].starts_with("speed ")) << result.recorder.summary.remarks[0];
}

TEST_F(TrainerTest, LoaderThreadsDoNotChangeTheRun) {
  config_.training.steps = 10;
  std::vector<std::vector<double>> losses;
  for (int threads : {0, 1, 3}) {
    config_.data.num_workers = threads;
    losses.push_back(run("workers" + std::to_string(threads)).recorder.losses());
    EXPECT_EQ(losses.back(), losses.front());
  }
}

// The main test of resuming: any stop, any number of loader threads, with averages and dropout, over two epochs.
TEST_F(TrainerTest, ResumedRunsEqualUninterruptedOnesBitForBit) {
  config_.optimizer.ema_decay = 0.9;
  config_.training.steps = 0;
  config_.training.epochs = 1;
  config_.model.context = 64;
  const Run whole = run("whole");
  const auto steps = static_cast<int64_t>(whole.recorder.steps.size());
  ASSERT_GE(steps, 20);
  for (int64_t stop : {int64_t{1}, steps / 2, steps - 1}) {
    for (int workers : {0, 1, 7}) {
      config_.data.num_workers = workers;
      const std::string name = fmt::format("cut-{}-{}", stop, workers);
      const Run first = run(name, false, stop);
      EXPECT_EQ(first.outcome.status, RunStatus::interrupted);
      const Run second = run(name, true);
      std::vector<double> losses = first.recorder.losses();
      for (double loss : second.recorder.losses()) losses.push_back(loss);
      EXPECT_EQ(losses, whole.recorder.losses()) << name;
      expect_same_bits(second.weights, whole.weights, name);
      EXPECT_EQ(second.outcome.validation_loss, whole.outcome.validation_loss);
      EXPECT_EQ(second.outcome.sample, whole.outcome.sample);
    }
  }
}

// transformers has no GPT-2 without biases, so the files contain zeros for them, which make the same model.
TEST_F(TrainerTest, ModelsWithoutBiasesAreFilesWithZeros) {
  config_.model.bias = false;
  config_.training.steps = 12;
  const Run whole = run("whole");
  run("cut", false, 5);
  const Run second = run("cut", true);
  expect_same_bits(second.weights, whole.weights, "resumed");

  const Checkpoint checkpoint = CheckpointStore(folder_.path() / "whole").newest().value();
  const SafeTensors& file = checkpoint.tensors(kModelFile);
  for (const char* name :
       {"transformer.h.0.ln_1", "transformer.h.0.attn.c_attn", "transformer.h.1.attn.c_proj", "transformer.h.1.ln_2",
        "transformer.h.0.mlp.c_fc", "transformer.h.1.mlp.c_proj", "transformer.ln_f"}) {
    const TensorView bias = file.at(fmt::format("{}.bias", name)), weight = file.at(fmt::format("{}.weight", name));
    EXPECT_EQ(bias.shape, Shape{weight.cols()}) << name;
    for (int64_t i = 0; i < bias.numel(); ++i) ASSERT_EQ(bias.ptr<float>()[i], 0.0f) << name;
  }
  RunConfig with_biases = config_;
  with_biases.model.bias = true;
  const std::unique_ptr<RunData> data = load_run_data(config_);
  const auto loss_of = [&](const RunConfig& config) {
    const Transformer model(model_spec(config, data->tokenizer().tokenizer->vocab_size()));
    Session session(model, session_options(config));
    load_model_tensors(file, model, family_named("gpt2"), session.weights().flat_master());
    return evaluate(session, *data, 0).loss();
  };
  EXPECT_EQ(loss_of(with_biases), loss_of(config_));
}

TEST_F(TrainerTest, RollsBackWithALowerRateThenGivesUp) {
  config_.optimizer.lr = config_.optimizer.min_lr = 10;
  config_.optimizer.clip = 0;
  config_.optimizer.weight_decay = 10;
  config_.schedule.warmup_steps = 20;
  config_.checkpoint.every_steps = 1;
  config_.training.steps = 400;
  config_.training.max_rollbacks = 2;
  config_.training.rollback_lr_factor = 0.9;
  try {
    run("diverges");
    FAIL() << "the run should have diverged";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("2 roll-backs did not help"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("optimizer.lr="), std::string::npos) << error.what();
  }
}

TEST_F(TrainerTest, ASpikeIsSkipped) {
  config_.optimizer.lr = config_.optimizer.min_lr = 0;  // losses then only vary around their mean
  config_.training.spike_factor = 1.002;
  config_.training.nan_patience = 1000;
  const Run result = run("spikes");
  int64_t skipped = 0;
  for (const StepMetrics& metrics : result.recorder.steps) skipped += !metrics.finite;
  EXPECT_GT(skipped, 0);
  EXPECT_LT(skipped, 40);
  EXPECT_EQ(static_cast<size_t>(skipped), result.notes.size());
}

TEST_F(TrainerTest, EarlyStoppingRestoresTheBest) {
  config_.training.steps = 400;
  config_.eval.every_steps = 5;
  config_.eval.patience = 2;
  config_.eval.min_delta = 0.2;
  const Run result = run("early");
  EXPECT_LT(result.outcome.step, 400);
  double best = 1e9;
  int64_t best_step = 0;
  for (const EvalMetrics& metrics : result.recorder.evals) {
    if (metrics.best && metrics.step != result.outcome.step) best = metrics.loss, best_step = metrics.step;
  }
  EXPECT_EQ(best_step, result.outcome.step - 10);
  ASSERT_FALSE(result.notes.empty());
  EXPECT_NE(result.notes.back().find(fmt::format("step {}", best_step)), std::string::npos) << result.notes.back();
  EXPECT_NEAR(result.outcome.validation_loss, best, 0.2);
}

// Whoever prunes sees every evaluation. The run ends where it is told to, says so, and can be resumed all the same.
TEST_F(TrainerTest, APrunedRunEndsAfterTheEvaluationAndSaysSo) {
  config_.eval.every_steps = 10;
  config_.checkpoint.keep_best = false;
  const Run whole = run("whole");
  std::vector<double> seen;
  prune_ = [&](const EvalMetrics& metrics) { return seen.push_back(metrics.loss), metrics.step >= 30; };
  const Run first = run("pruned");
  EXPECT_EQ(first.outcome.status, RunStatus::pruned);
  EXPECT_EQ(first.outcome.step, 30);
  EXPECT_EQ(first.recorder.steps.size(), 30u);
  ASSERT_EQ(first.recorder.evals.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(seen[i], whole.recorder.evals[i].loss);
  EXPECT_EQ(first.outcome.validation_loss, seen.back());
  EXPECT_EQ(first.recorder.summary.status, RunStatus::pruned);
  EXPECT_EQ(first.recorder.summary.step, 30);
  EXPECT_EQ(first.recorder.tags, std::vector<std::string>{"pruned"});
  EXPECT_EQ(first.notes.back(), "pruned after the evaluation of step 30");
  const CheckpointStore store(folder_.path() / "pruned");
  EXPECT_EQ(store.newest()->step(), 30);
  EXPECT_TRUE(state_from_json(store.newest()->state_json()).pruned);

  prune_ = TrainServices{}.prune;
  const Run second = run("pruned", true);
  EXPECT_EQ(second.outcome.status, RunStatus::completed);
  expect_same_bits(second.weights, whole.weights, "resumed");
  EXPECT_FALSE(state_from_json(store.newest()->state_json()).pruned);
}

// The best checkpoint is written after the evaluation, too, and once.
TEST_F(TrainerTest, ARunIsPrunedAtItsBest) {
  config_.eval.every_steps = 10;
  prune_ = [&](const EvalMetrics& metrics) { return metrics.best && metrics.step == 20; };
  const Run result = run("best");
  EXPECT_EQ(result.outcome.step, 20);
  EXPECT_EQ(result.recorder.checkpoints, (std::vector<int64_t>{10, 20}));
  EXPECT_TRUE(state_from_json(CheckpointStore(folder_.path() / "best").newest()->state_json()).pruned);
}

TEST_F(TrainerTest, KeepsTheLastAndTheBest) {
  config_.checkpoint.every_steps = 4;
  config_.checkpoint.keep_last = 2;
  config_.eval.min_delta = 10;  // the first evaluation stays the best
  run("kept");
  const std::vector<int64_t> steps = CheckpointStore(folder_.path() / "kept").steps();
  EXPECT_EQ(steps, (std::vector<int64_t>{25, 56, 60}));
}

TEST_F(TrainerTest, EpochsAreCountedAndReported) {
  config_.training.steps = 0;
  config_.training.epochs = 2;
  config_.model.context = 128;
  const Run result = run("epochs");
  ASSERT_EQ(result.recorder.epochs.size(), 2u);
  EXPECT_EQ(result.recorder.epochs[1].epoch, 2);
  EXPECT_EQ(result.recorder.epochs[1].num_epochs, 2);
  EXPECT_LT(result.recorder.epochs[1].train_loss, result.recorder.epochs[0].train_loss);
}

TEST_F(TrainerTest, AveragesCanBeTurnedOnWhenResuming) {
  run("averages", false, 10);
  config_.optimizer.ema_decay = 0.9;
  const Run second = run("averages", true);
  EXPECT_EQ(second.outcome.status, RunStatus::completed);
  EXPECT_LT(second.outcome.validation_loss, 2.5);
}

TEST_F(TrainerTest, ResumingWithOtherCharactersIsRefused) {
  run("other", false, 3);
  std::ofstream(folder_.path() / "text.txt", std::ios::app) << "QZ";
  try {
    run("other", true);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_NE(std::string(error.what()).find("differ from those"), std::string::npos) << error.what();
  }
}

TEST(Sampler, FollowsTheLogits) {
  const std::vector<float> logits = {0.0f, 3.0f, 1.0f, 3.0f};
  EXPECT_EQ(sample_token(logits, {.temperature = 0}, 0), 1);
  std::vector<int> counts(4);
  for (int64_t i = 0; i < 4000; ++i)
    ++counts[static_cast<size_t>(sample_token(logits, {.temperature = 1, .seed = 3}, i))];
  const double total = std::exp(0.0) + 2 * std::exp(3.0) + std::exp(1.0);
  for (size_t token = 0; token < 4; ++token) {
    EXPECT_NEAR(counts[token] / 4000.0, std::exp(logits[token]) / total, 0.02) << token;
  }
  for (int64_t i = 0; i < 200; ++i) EXPECT_EQ(sample_token(logits, {.temperature = 1, .top_k = 1, .seed = 3}, i), 1);
}

// The steps detect it and give advice; the rehearsal after the first step does not check values.
TEST_F(TrainerTest, DivergesInItsFirstStep) {
  config_.machine.dtype = "fp16";
  config_.optimizer.lr = 10;
  config_.optimizer.clip = 0;
  config_.schedule.warmup_steps = 0;
  config_.training.steps = 200;
  expect_error(
      [&] {
        Recorder recorder;
        Trainer trainer(config_, open_run(config_));
        trainer.attach({.metrics = &recorder});
        trainer.run();
      },
      ExitCode::failure, {"bad steps in a row", "try optimizer.lr=5"});
}

// The last steps are saved before anything that may fail after them.
TEST_F(TrainerTest, AnEvaluationThatFailsAtTheEndLosesNothing) {
  struct Failing : Recorder {
    void eval(const EvalMetrics& metrics) override {
      if (metrics.step == 60) throw Error(ExitCode::failure, "this evaluation fails", "");
    }
  };
  const std::filesystem::path folder = folder_.path() / "failing";
  std::filesystem::create_directories(folder);
  Failing metrics;
  CheckpointStore store(folder);
  Trainer trainer(config_, open_run(config_));
  trainer.attach({.metrics = &metrics, .store = &store});
  EXPECT_THROW(trainer.run(), Error);
  EXPECT_EQ(store.newest()->step(), 60);
}

TEST_F(TrainerTest, ACheckpointIsWrittenOnce) {
  config_.eval.every_steps = config_.checkpoint.every_steps = 20;
  config_.checkpoint.keep_last = 5;
  const Run whole = run("once");
  EXPECT_EQ(whole.recorder.checkpoints, (std::vector<int64_t>{20, 40, 60}));
  EXPECT_EQ(CheckpointStore(folder_.path() / "once").steps(), (std::vector<int64_t>{20, 40, 60}));
  // The result of the last evaluation is in the last checkpoint.
  const TrainState state = state_from_json(CheckpointStore(folder_.path() / "once").newest()->state_json());
  EXPECT_EQ(state.best_step, 60);
}

}  // namespace
}  // namespace gradmill::test
