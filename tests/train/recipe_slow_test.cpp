// SPDX-License-Identifier: Apache-2.0
// nanoGPT's CPU recipe, whole: about a minute.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "train/trainer.h"

namespace gradmill::test {
namespace {

TEST(Recipe, ShakespeareOnTheCpu) {
  const char* data = std::getenv("GRADMILL_DATA");
  if (data == nullptr || !std::filesystem::exists(std::filesystem::path(data) / "shakespeare/input.txt")) {
    GTEST_SKIP() << "set GRADMILL_DATA to a folder that holds shakespeare/input.txt";
  }
  TrainConfig config;  // 4 layers, 4 heads, 128 wide, context 64, batch 12, 2000 steps at 1e-3, no dropout
  config.corpus.dataset = "shakespeare";
  TrainObserver quiet;
  const TrainSummary summary = Trainer(config, quiet).run();
  EXPECT_LE(summary.validation_loss, 1.90);
  EXPECT_GT(summary.validation_loss, 1.5) << "too good for this model: does it see the validation text?";
}

}  // namespace
}  // namespace gradmill::test
