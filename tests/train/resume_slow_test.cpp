// SPDX-License-Identifier: Apache-2.0
// Twenty random stops over two epochs, with 0, 1 and 7 loader threads: the following losses are bit-identical.
#include <random>

#include "train/trainer_fixture.h"

namespace gradmill::test {
namespace {

TEST_F(TrainerTest, TwentyRandomStops) {
  config_.training.steps = 0;
  config_.training.epochs = 2;
  config_.optimizer.ema_decay = 0.9;
  const Run whole = run("whole");
  const auto steps = static_cast<int64_t>(whole.recorder.steps.size());
  ASSERT_GE(steps, 100);
  std::mt19937 random(7);
  for (int i = 0; i < 20; ++i) {
    const int64_t stop = 1 + static_cast<int64_t>(random() % static_cast<uint32_t>(steps - 1));
    for (int workers : {0, 1, 7}) {
      config_.data.num_workers = workers;
      const std::string name = fmt::format("stop-{}-{}-{}", i, stop, workers);
      std::vector<double> losses = run(name, false, stop).recorder.losses();
      const Run second = run(name, true);
      for (double loss : second.recorder.losses()) losses.push_back(loss);
      ASSERT_EQ(losses, whole.recorder.losses()) << name;
      expect_same_bits(second.weights, whole.weights, name);
    }
  }
}

}  // namespace
}  // namespace gradmill::test
