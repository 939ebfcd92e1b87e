// SPDX-License-Identifier: Apache-2.0
// Whole runs on a GPU: nanoGPT's recipe, bf16 compared with fp32 over several seeds, ten thousand steps with constant
// memory.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "config/loader.h"
#include "support/test_device.h"
#include "run/char_data.h"
#include "train/trainer.h"

namespace gradmill::test {
namespace {

struct LossRecorder : MetricsSink {
  void step(const StepMetrics& metrics) override { losses.push_back(metrics.loss); }
  void eval(const EvalMetrics& metrics) override { best = std::min(best, metrics.loss); }
  std::vector<double> losses;
  double best = INFINITY;
};

class GpuRuns : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!is_present(Device::cuda)) GTEST_SKIP() << "there is no GPU here";
  }
  static LossRecorder train(const std::vector<std::string>& settings) {
    ConfigRequest request;
    request.overrides = settings;
    const RunConfig config = load_config(request).config;
    LossRecorder recorder;
    Trainer trainer(config, open_run(config));
    trainer.attach({.metrics = &recorder});
    trainer.run();
    return recorder;
  }
};

TEST_P(GpuRuns, Shakespeare) {
  const char* data = std::getenv("GRADMILL_DATA");
  if (data == nullptr || !std::filesystem::exists(std::filesystem::path(data) / "shakespeare/input.txt")) {
    GTEST_SKIP() << "set GRADMILL_DATA to a folder that holds shakespeare/input.txt";
  }
  double sum = 0;
  for (int seed : {1, 2, 3}) {
    const auto start = std::chrono::steady_clock::now();
    const LossRecorder run =
        train({"experiment=shakespeare_gpu", "training.seed=" + std::to_string(seed), "sample.tokens=0"});
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("seed {}: best validation loss {:.4f} in {:.1f} s\n", seed, run.best, seconds);
    EXPECT_LT(seconds, 60) << "on an H200";
    sum += run.best;
  }
  EXPECT_LE(sum / 3, 1.475);
  EXPECT_GT(sum / 3, 1.40) << "too good for this model: does it see the validation text?";
}

// Means of the last fifty losses of a thousand steps, three seeds each.
TEST_P(GpuRuns, Bf16LearnsAsFp32Does) {
  std::vector<double> means[2];
  for (int narrow : {0, 1}) {
    for (int seed : {1, 2, 3}) {
      const LossRecorder run =
          train({"model.layers=6", "model.heads=4", "model.width=256", "model.context=128", "training.batch_size=32",
                 "training.steps=1000", "eval.every_steps=0", "sample.tokens=0",
                 "training.seed=" + std::to_string(seed), narrow ? "machine.dtype=bf16" : "machine.dtype=fp32"});
      means[narrow].push_back(std::accumulate(run.losses.end() - 50, run.losses.end(), 0.0) / 50);
    }
  }
  const auto mean = [](const std::vector<double>& v) {
    return std::accumulate(v.begin(), v.end(), 0.0) / double(v.size());
  };
  double squares = 0;
  for (const std::vector<double>& group : means) {
    for (double value : group) squares += (value - mean(group)) * (value - mean(group));
  }
  const double sigma = std::sqrt(squares / 4), difference = mean(means[1]) - mean(means[0]);
  fmt::print("bf16 {:.4f}, fp32 {:.4f}: difference {:.4f}, sigma over seeds {:.4f}\n", mean(means[1]), mean(means[0]),
             difference, sigma);
  EXPECT_LE(std::fabs(difference), 2 * sigma);
}

TEST_P(GpuRuns, TenThousandStepsWithoutGrowth) {
  RunConfig config;
  config.model.layers = 2;
  config.training.micro_batch_size = 5;  // graphs for full and for short micro-batches
  config.machine.device = "cuda";
  const std::vector<int32_t> tokens = CharData(config).tokens().train;
  const Transformer model(model_spec(config, 256));
  Session session(model, session_options(config));
  TrainLoader loader(tokens, loader_options(config));
  size_t early = 0;
  for (int64_t step = 0; step < 10000; ++step) {
    const StepBatch batch = loader.next();
    session.begin_step(step, 1e-3f, batch.num_targets);
    for (const MicroBatch& micro : batch.micro) session.train_micro(micro);
    session.end_step();
    if (step == 3) early = session.driver_bytes();
  }
  EXPECT_EQ(session.driver_bytes(), early);
}

struct MemoryRecorder : MetricsSink {
  void step(const StepMetrics&) override { bytes.push_back(session->driver_bytes()); }
  void finish(const RunSummary&) override { bytes.push_back(session->driver_bytes()); }
  Session* session = nullptr;
  std::vector<size_t> bytes;
};

// Larger batches than training's, and a sample at the end.
TEST_P(GpuRuns, EvaluationsTakeNoMemoryLater) {
  RunConfig config;
  config.machine.device = "cuda";
  config.training.steps = 60;
  config.eval.every_steps = 20;
  config.eval.batch_size = 256;
  config.sample.tokens = 20;
  MemoryRecorder recorder;
  Trainer trainer(config, open_run(config));
  recorder.session = &trainer.session();
  trainer.attach({.metrics = &recorder});
  trainer.run();
  for (size_t step = 4; step < recorder.bytes.size(); ++step) {
    EXPECT_EQ(recorder.bytes[step], recorder.bytes[3]) << "after step " << step + 1;
  }
}

INSTANTIATE_TEST_SUITE_P(cuda, GpuRuns, testing::Values("bf16"), [](const auto& test) { return test.param; });

}  // namespace
}  // namespace gradmill::test
