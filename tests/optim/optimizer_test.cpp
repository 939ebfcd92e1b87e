// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.h"

#include <algorithm>

#include "support/op_test.h"

namespace gradmill::test {
namespace {

// A matrix and a vector, each with padding after it.
ParamTable small_table() {
  ParamTable table;
  table.add({.name = "weight", .rows = 30, .cols = 20});
  table.add({.name = "bias", .cols = 30});
  return table;
}

class OptimizerTest : public OpTest {
 protected:
  OptimizerTest() : table_(small_table()), weights_(ctx_, table_, DType::fp32), grads_(ctx_, table_) {
    weights_.initialise(ctx_, 1);
    std::fill_n(grads_.flat().ptr<float>(), grads_.flat().numel(), 0.5f);
    grads_.set_all_written();
  }

  void step(const Optimizer& optimizer) {
    optimizer.set_scalars(scalars());
    scalars().lr = 0.1f;
    optimizer.update(ctx_, weights_, grads_);
  }

  ParamTable table_;
  Weights weights_;
  Gradients grads_;
};

TEST_P(OptimizerTest, KeepsTwoMomentsUnderTheNamesOfCheckpoints) {
  Optimizer optimizer(ctx_, table_, {});
  const std::vector<StateTensor> state = optimizer.state();
  ASSERT_EQ(state.size(), 2u);
  EXPECT_EQ(state[0].name, "adamw.first_moments");
  EXPECT_EQ(state[1].name, "adamw.second_moments");
  for (const StateTensor& tensor : state) {
    EXPECT_EQ(tensor.view.dtype, DType::fp32);
    EXPECT_EQ(tensor.view.numel(), table_.flat_size());
    EXPECT_EQ(download(tensor.view), std::vector<float>(static_cast<size_t>(table_.flat_size())));
  }
  step(optimizer);
  EXPECT_GT(state[0].view.ptr<float>()[0], 0);
  EXPECT_GT(state[1].view.ptr<float>()[0], 0);
}

TEST_P(OptimizerTest, WeightDecayReachesTheDeviceWithTheScalars) {
  const Optimizer optimizer(ctx_, table_, {.beta1 = 0.8f, .weight_decay = 0.25f, .clip = 3});
  StepInputs inputs;
  optimizer.set_scalars(inputs);
  EXPECT_EQ(inputs.beta1, 0.8f);
  EXPECT_EQ(inputs.clip, 3);
  EXPECT_EQ(inputs.groups[kDecayGroup].weight_decay, 0.25f);
  EXPECT_EQ(inputs.groups[kNoDecayGroup].weight_decay, 0);
  EXPECT_EQ(inputs.groups[kDecayGroup].lr_scale, 1);
  EXPECT_EQ(inputs.groups[kNoDecayGroup].lr_scale, 1);
}

// Matrices shrink, vectors do not; and the same optimiser takes other numbers after a reset.
TEST_P(OptimizerTest, AResetOptimizerUpdatesAsANewOne) {
  const std::vector<float> start = download(weights_.flat_master());
  const AdamWOptions before{.weight_decay = 0.5f}, after{.beta1 = 0.7f, .beta2 = 0.9f, .weight_decay = 0};
  const auto weights_after = [&](const Optimizer& optimizer) {
    std::copy(start.begin(), start.end(), weights_.flat_master().ptr<float>());
    scalars().updates = 0;
    step(optimizer), step(optimizer);
    return download(weights_.flat_master());
  };
  Optimizer optimizer(ctx_, table_, before);
  const std::vector<float> decayed = weights_after(optimizer);
  optimizer.reset(ctx_, after);
  const std::vector<float> reset = weights_after(optimizer), fresh = weights_after(Optimizer(ctx_, table_, after));
  expect_same_bits(reset, fresh, "weights");
  EXPECT_NE(decayed.front(), fresh.front());
}

INSTANTIATE_TEST_SUITE_P(Optim, OptimizerTest, testing::ValuesIn(fp32_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
