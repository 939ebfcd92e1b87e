// SPDX-License-Identifier: Apache-2.0
// MiniLM fine-tuned on RTE: the losses of 50 steps compared with transformers (tools/compare_rte.py golden), dropout 0.
// Needs GRADMILL_MINILM, the folder of all-MiniLM-L6-v2, and GRADMILL_DATA with GLUE's rte/train.tsv and dev.tsv.
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/goldens.h"
#include "support/test_device.h"
#include "train/trainer_fixture.h"

namespace gradmill::test {
namespace {

struct RteTest : testing::TestWithParam<const char*> {};

TEST_P(RteTest, LossesAsTransformers) {
  const char *const model = std::getenv("GRADMILL_MINILM"), *const data = std::getenv("GRADMILL_DATA");
  if (std::string(GetParam()) == "cuda" && !is_present(Device::cuda)) GTEST_SKIP() << "there is no GPU here";
  if (model == nullptr || data == nullptr) GTEST_SKIP() << "set GRADMILL_MINILM and GRADMILL_DATA";
  const std::filesystem::path rte = std::filesystem::path(data) / "rte";
  if (!std::filesystem::exists(rte / "train.tsv")) GTEST_SKIP() << rte << " has no train.tsv";
  const SafeTensors golden(golden_path("rte_minilm"));
  const TensorView losses = golden.at("losses");

  RunConfig config;
  config.data.task = "classify";
  config.data.path = (rte / "train.tsv").string();
  config.data.validation_path = (rte / "dev.tsv").string();
  config.data.labels = "entailment,not_entailment";
  config.data.order = "sequential";
  config.model.path = model;
  config.model.context = 256;
  config.training.steps = losses.numel();
  config.training.batch_size = 32;
  config.optimizer.lr = config.optimizer.min_lr = 2e-5;
  config.optimizer.beta2 = 0.999;
  config.optimizer.weight_decay = 0.01;
  config.schedule.name = "constant";
  config.schedule.warmup_steps = 0;
  config.eval.every_steps = 0;
  config.machine.device = GetParam();
  config.machine.dtype = "fp32";

  Trainer trainer(config, open_run(config));
  Recorder recorder;
  trainer.attach({.metrics = &recorder, .config_yaml = ""});
  trainer.session().write_weights([&](ExecContext& ctx, Weights& weights) {
    for (const char* name : {"classifier.weight", "classifier.bias"}) {
      weights.load(ctx, trainer.model().params().find(name), golden.at(name));
    }
    weights.refresh_compute(ctx);
  });
  trainer.run();
  ASSERT_EQ(std::ssize(recorder.steps), losses.numel());
  for (int64_t i = 0; i < losses.numel(); ++i) {
    EXPECT_NEAR(recorder.steps[static_cast<size_t>(i)].loss, losses.ptr<float>()[i], 1e-3) << "step " << i + 1;
  }
}

INSTANTIATE_TEST_SUITE_P(, RteTest, testing::Values("cpu", "cuda"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace gradmill::test
