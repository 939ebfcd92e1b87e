// SPDX-License-Identifier: Apache-2.0
// The loop: it learns, it reports, and it stops on nonsense.
#include "train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "train/sampler.h"

namespace gradmill::test {
namespace {

struct Recorder : TrainObserver {
  void on_start(const RunInfo&) override { ++starts; }
  void on_step(const StepReport& report) override { losses.push_back(report.loss); }
  void on_eval(const EvalReport& report) override { evals.push_back(report); }
  void on_sample(const std::string& text) override { sample = text; }

  int starts = 0;
  std::vector<double> losses;
  std::vector<EvalReport> evals;
  std::string sample;
};

class TrainerTest : public testing::Test {
 protected:
  TrainerTest() {
    path_ = std::filesystem::temp_directory_path() / ("gradmill-trainer-test-" + std::to_string(getpid()));
    std::ofstream file(path_);
    for (int i = 0; i < 400; ++i) file << "the miller grinds, the mill turns.\n";
    config_.corpus.dataset = path_.string();
    config_.layers = 2;
    config_.heads = 2;
    config_.width = 32;
    config_.context = 16;
    config_.batch_size = 8;
    config_.steps = 60;
    config_.warmup_steps = 5;
    config_.lr = 1e-2;
    config_.eval_interval = 25;
    config_.sample_tokens = 40;
    config_.num_threads = 2;
  }
  ~TrainerTest() override { std::filesystem::remove(path_); }

  std::filesystem::path path_;
  TrainConfig config_;
};

TEST_F(TrainerTest, LearnsAndReports) {
  for (const char* style : {"gpt2", "qwen3"}) {
    config_.style = style;
    Recorder recorder;
    const TrainSummary summary = Trainer(config_, recorder).run();
    EXPECT_EQ(recorder.starts, 1);
    ASSERT_EQ(recorder.losses.size(), 60u);
    EXPECT_GT(recorder.losses.front(), 2.5);
    EXPECT_LT(recorder.losses.back(), 0.5);
    ASSERT_EQ(recorder.evals.size(), 4u);  // steps 0, 25, 50 and the end
    EXPECT_EQ(recorder.evals.back().step, 60);
    EXPECT_LT(summary.validation_loss, 0.5);
    EXPECT_EQ(recorder.sample.size(), 40u);
    EXPECT_NE(recorder.sample.find("mill"), std::string::npos) << recorder.sample;
  }
}

TEST_F(TrainerTest, LoaderThreadsDoNotChangeTheRun) {
  config_.steps = 10;
  std::vector<std::vector<double>> losses;
  for (int threads : {0, 1, 3}) {
    config_.loader_threads = threads;
    Recorder recorder;
    Trainer(config_, recorder).run();
    losses.push_back(recorder.losses);
    EXPECT_EQ(losses.back(), losses.front());
  }
}

TEST_F(TrainerTest, StopsWhenNothingIsFinite) {
  config_.lr = 10;
  config_.min_lr = 10;
  config_.adamw.clip = 0;
  config_.adamw.weight_decay = 10;
  config_.warmup_steps = 0;
  config_.steps = 200;
  Recorder recorder;
  try {
    Trainer(config_, recorder).run();
    FAIL() << "the run ended with loss " << recorder.losses.back();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("not finite"), std::string::npos) << error.what();
    EXPECT_EQ(error.code(), ExitCode::failure);
  }
}

TEST_F(TrainerTest, BadSettingsNameThemselves) {
  const auto message = [&](auto change) {
    TrainConfig config = config_;
    change(config);
    TrainObserver quiet;
    try {
      Trainer trainer(config, quiet);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message([](TrainConfig& c) { c.batch_size = 0; }).find("--batch-size is 0"), std::string::npos);
  EXPECT_NE(message([](TrainConfig& c) { c.context = -4; }).find("--context is -4"), std::string::npos);
  EXPECT_NE(message([](TrainConfig& c) { c.width = 30; c.heads = 4; }).find("not a multiple"), std::string::npos);
  EXPECT_NE(message([](TrainConfig& c) { c.layers = 0; }).find("layers is 0"), std::string::npos);
  EXPECT_NE(message([](TrainConfig& c) { c.style = "gpt5"; }).find("gpt2, qwen3"), std::string::npos);
  EXPECT_NE(message([](TrainConfig& c) { c.save_policy = "all"; }).find("none, cheap, block"), std::string::npos);
  EXPECT_NE(message([](TrainConfig& c) { c.dtype = "fp64"; }).find("fp32, bf16, fp16"), std::string::npos);
  EXPECT_NE(message([](TrainConfig& c) { c.lr = NAN; }).find("--lr is nan"), std::string::npos);
}

TEST(Sampler, FollowsTheLogits) {
  const std::vector<float> logits = {0.0f, 3.0f, 1.0f, 3.0f};
  EXPECT_EQ(sample_token(logits, {.temperature = 0}, 0), 1);
  std::vector<int> counts(4);
  for (int64_t i = 0; i < 4000; ++i) ++counts[static_cast<size_t>(sample_token(logits, {.temperature = 1, .seed = 3}, i))];
  const double total = std::exp(0.0) + 2 * std::exp(3.0) + std::exp(1.0);
  for (size_t token = 0; token < 4; ++token) {
    EXPECT_NEAR(counts[token] / 4000.0, std::exp(logits[token]) / total, 0.02) << token;
  }
  for (int64_t i = 0; i < 200; ++i) EXPECT_EQ(sample_token(logits, {.temperature = 1, .top_k = 1, .seed = 3}, i), 1);
}

}  // namespace
}  // namespace gradmill::test
