// SPDX-License-Identifier: Apache-2.0
// The whole nanoGPT recipe for CPUs: about a minute.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "config/loader.h"
#include "train/trainer.h"

namespace gradmill::test {
namespace {

TEST(Recipe, ShakespeareOnTheCpu) {
  const char* data = std::getenv("GRADMILL_DATA");
  if (data == nullptr || !std::filesystem::exists(std::filesystem::path(data) / "shakespeare/input.txt")) {
    GTEST_SKIP() << "set GRADMILL_DATA to a folder that holds shakespeare/input.txt";
  }
  ConfigRequest request;
  request.overrides = {"experiment=shakespeare_cpu"};
  const RunConfig config = load_config(request).config;
  MetricsSink quiet;
  Trainer trainer(config, open_run(config));
  trainer.attach({.metrics = &quiet});
  const TrainOutcome summary = trainer.run();
  EXPECT_LE(summary.validation_loss, 1.90);
  EXPECT_GT(summary.validation_loss, 1.5) << "too good for this model: does it see the validation text?";
}

}  // namespace
}  // namespace gradmill::test
