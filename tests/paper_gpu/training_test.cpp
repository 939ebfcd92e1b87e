// SPDX-License-Identifier: Apache-2.0
// Short training runs on the paper GPU compared with the same runs on the CPU: losses, bits, and resuming.
#include <gtest/gtest.h>

#include <cmath>

#include "paper_gpu/paper_gpu.h"
#include "run/export_model.h"
#include "run/labelled_run_fixture.h"
#include "train/trainer_fixture.h"

namespace gradmill::test {
namespace {

constexpr int64_t kSteps = 50;

// The losses of two runs of the same steps, which may differ only by rounding.
void expect_near(const std::vector<double>& losses, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], expected[i], tolerance * std::max(expected[i], 0.1)) << "step " << i + 1;
  }
}

class PaperTraining : public LabelledRunTest {
 protected:
  PaperTraining() {
    config_.training.epochs = 0;
    config_.training.steps = kSteps;
    config_.training.batch_size = 8;
    config_.schedule.warmup_steps = 5;
    config_.optimizer.lr = 2e-3;
    config_.model.layers = 2;
    config_.model.width = 64;
    config_.model.heads = 2;
    config_.model.dropout = 0;  // the draws are the same, but rounding decides on which side of a limit some are
    config_.eval.every_epochs = 0;
    config_.eval.every_steps = 25;
    config_.eval.tokens = 400;
    config_.sample.tokens = 8;
  }
  ~PaperTraining() override { EXPECT_TRUE(paper::take_faults().empty()); }

  // Trains language models on a text of characters.
  void learn_text(const char* style) {
    config_.data = DataConfig();
    config_.data.dataset = (folder_.path() / "text.txt").string();
    config_.model.style = style;
    config_.model.kv_heads = std::string(style) == "qwen3" ? 1 : 0;
    config_.model.context = 64;
  }

  static bool has_bf16() { return paper::gpu().compute_capability >= 80; }

  // Compares the CPU, the GPU in fp32 and in 16 bits, two runs with the same bits, and a resumed run.
  void expect_same_run(double short_tolerance = 0.03) {
    config_.machine.device = "cpu";
    config_.machine.dtype = "fp32";
    const std::vector<double> expected = run("cpu").recorder.losses();
    EXPECT_LT(expected.back(), 0.8 * expected.front()) << "this run learns nothing";
    config_.machine.device = "cuda";
    config_.machine.deterministic = true;
    expect_near(run("fp32").recorder.losses(), expected, 2e-3);
    config_.machine.dtype = has_bf16() ? "bf16" : "fp16";
    const Run whole = run("short");
    expect_near(whole.recorder.losses(), expected, short_tolerance);
    const Run again = run("again");
    EXPECT_EQ(again.recorder.losses(), whole.recorder.losses());
    expect_same_bits(again.weights, whole.weights, "again");
    const Run cut = run("cut", false, 23);
    EXPECT_EQ(cut.outcome.status, RunStatus::interrupted);
    const Run resumed = run("cut", true);
    std::vector<double> losses = cut.recorder.losses();
    for (const double loss : resumed.recorder.losses()) losses.push_back(loss);
    EXPECT_EQ(losses, whole.recorder.losses());
    expect_same_bits(resumed.weights, whole.weights, "resumed");
    EXPECT_EQ(resumed.outcome.validation_loss, whole.outcome.validation_loss);
    EXPECT_EQ(resumed.outcome.sample, whole.outcome.sample);
  }
};

TEST_F(PaperTraining, Gpt2) {
  learn_text("gpt2");
  expect_same_run();
}

TEST_F(PaperTraining, Qwen3) {
  learn_text("qwen3");
  expect_same_run();
}

TEST_F(PaperTraining, BertClassifier) { expect_same_run(0.1); }

TEST_F(PaperTraining, LowRankAdapters) {
  learn_text("llama");
  config_.machine.device = "cpu";
  config_.machine.dtype = "fp32";
  config_.training.steps = 2;
  run("base");
  const std::filesystem::path base = folder_.path() / "exported";
  export_model_to({.from = CheckpointStore(folder_.path() / "base").newest()->folder(), .to = base});
  config_.model.path = base.string();
  config_.model.style = ModelConfig().style;
  config_.adapter.kind = "lora";
  config_.adapter.rank = 8;
  config_.optimizer.lr = 3e-3;
  config_.training.steps = kSteps;
  expect_same_run();
}

}  // namespace
}  // namespace gradmill::test
