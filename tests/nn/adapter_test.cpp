// SPDX-License-Identifier: Apache-2.0
// Adapters of a linear layer: gradients compared with central differences, frozen parameters, and quantised bases.
#include <algorithm>
#include <cmath>
#include <optional>

#include "nn/linear.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

constexpr int64_t kRows = 22, kWidth = 24;

class AdapterTest : public OpTest {
 protected:
  AdapterTest() {
    plan_.freezes_base = true;
    ctx_.kernels.tf32 = false;
  }

  Linear make_linear(bool bias) {
    params_ = ParamTable(plan_);
    Linear layer(params_, {.name = "layers.0.linear",
                           .in = kWidth,
                           .slices = {{"one", 27}},
                           .bias = bias,
                           .owner_keeps_output = owner_keeps_output_});
    weights_.emplace(ctx_, params_, DType::fp32);
    grads_.emplace(ctx_, params_);
    for (ParamId id = 0; id < params_.size(); ++id) {
      const ParamSpec& spec = params_.spec(id);
      if (spec.format == WeightFormat::fp32) continue;
      std::vector<float> values = random_values(spec.numel(), 100 + static_cast<uint32_t>(id), 0.4f);
      if (spec.init == Init::ones) {
        for (float& value : values) value += 1.5f;
      }
      weights_->set(ctx_, id, values.data());
    }
    weights_->refresh_compute(ctx_);
    return layer;
  }

  Pass pass() { return {.ctx = ctx_, .weights = *weights_, .grads = &*grads_, .policy = SavePolicy::none()}; }
  TensorView matrix(uint32_t seed, int64_t cols) {
    return upload(random_values(kRows * cols, seed), {kRows, cols}, DType::fp32);
  }

  // The whole backward as owners of the layer call it, with its parts in either order.
  void backward(const Linear& layer, Pass& p, const TensorView& x, const TensorView& y, const TensorView& dy,
                const TensorView& dx, bool weight_first) {
    const ArenaScope scope(ctx_.scratch);
    grads_->begin_step();
    if (p.adapters.buffer.defined()) p.adapters.buffer = p.scratch({kRows, params_.max_rank()}, "buffer");
    layer.backward_bias(p, dy);
    const Operand dz = layer.backward_magnitude(p, y, dy, p.scratch(dy.shape, "dz"));
    if (weight_first) layer.backward_weight(p, x, dz);
    layer.backward_input(p, dz, dx);
    if (!weight_first) layer.backward_weight(p, x, dz);
  }

  void expect_all_gradients(const Linear& layer, Pass& p, bool weight_first) {
    const TensorView x = matrix(1, kWidth), y = tensor({kRows, layer.out()}, DType::fp32), dy = matrix(2, layer.out()),
                     dx = tensor(x.shape, DType::fp32);
    const auto forward = [&] { layer.forward(p, x, y); };
    forward();
    backward(layer, p, x, y, dy, dx, weight_first);
    ASSERT_TRUE(grads_->all_written());
    GradientCheck check{.forward = forward, .output = y, .doutput = download(dy), .tolerance = 1e-2};
    expect_gradient(check, x, download(dx), "the input");
    for (ParamId id = 0; id < params_.size(); ++id) {
      if (!params_.spec(id).trainable) {
        EXPECT_FALSE(grads_->view(id).defined());
        continue;
      }
      // Norms are constants: gains follow magnitudes, not A and B.
      check.forward = forward;
      if (params_.spec(id).name.ends_with("magnitude")) {
        check.forward = [&] {
          weights_->refresh_gains(ctx_);
          forward();
        };
      }
      expect_gradient(check, (*weights_)[id], download(grads_->view(id)), params_.spec(id).name);
    }
  }

  // Adapters of these ranks; 0: none.
  static std::vector<SliceAdapter> slices(int64_t a, int64_t b, int64_t c) {
    return {{"a", 10, a, 0.5f}, {"b", 9, b, 2.0f}, {"c", 8, c, 1.0f}};
  }

  AdapterPlan plan_;
  bool owner_keeps_output_ = true;
  ParamTable params_;
  std::optional<Weights> weights_;
  std::optional<Gradients> grads_;
};

TEST_P(AdapterTest, LoraOnAllSlicesAndOnSome) {
  for (const auto& adapters : {slices(4, 3, 1), slices(0, 5, 0)}) {
    plan_.linears["layers.0.linear"] = adapters;
    for (float dropout : {0.0f, 0.3f}) {
      const ArenaScope scope(ctx_.persistent);
      plan_.dropout = dropout;
      scalars().seed = 5;
      const Linear layer = make_linear(true);
      Pass p = pass();
      expect_all_gradients(layer, p, false);
      if (dropout == 0) p.adapters.buffer = tensor({kRows, params_.max_rank()}, DType::fp32);
      expect_all_gradients(layer, p, true);
    }
  }
}

TEST_P(AdapterTest, Dora) {
  plan_.dora = true;
  for (bool bias : {false, true}) {
    for (const auto& adapters : {slices(4, 3, 2), slices(0, 5, 0)}) {
      const ArenaScope scope(ctx_.persistent);
      plan_.linears["layers.0.linear"] = adapters;
      for (bool keeps : {true, false}) {
        owner_keeps_output_ = keeps;
        const Linear layer = make_linear(bias);
        Pass p = pass();
        expect_all_gradients(layer, p, false);
        expect_all_gradients(layer, p, true);
      }
    }
  }
}

// The first gradient of a step overwrites and later ones add. Low-rank gradients may be shared between the parts or
// not. All cases must give the same bits.
TEST_P(AdapterTest, SharedLowRankGradientsChangeNothing) {
  plan_.linears["layers.0.linear"] = slices(4, 3, 1);
  const Linear layer = make_linear(false);
  const TensorView x = matrix(1, kWidth), dx = matrix(4, kWidth);
  std::vector<float> first;
  for (int mode = 0; mode < 3; ++mode) {
    Pass p = pass();
    if (mode > 0) p.adapters.buffer = tensor({kRows + 5, params_.max_rank() + 3}, DType::fp32);
    grads_->begin_step();
    std::vector<float> all;
    // Other values at the same address must not be mistaken for the previous ones.
    const TensorView dy = tensor({kRows, layer.out()}, DType::fp32);
    for (uint32_t round = 0; round < 3; ++round) {
      const std::vector<float> values = random_values(dy.numel(), 10 + round);
      std::copy(values.begin(), values.end(), dy.ptr<float>());
      const bool weight_first = mode == 2;
      if (weight_first) layer.backward_weight(p, x, dy);
      layer.backward_input(p, dy, dx);
      if (!weight_first) layer.backward_weight(p, x, dy);
      const std::vector<float> out = download(dx);
      all.insert(all.end(), out.begin(), out.end());
    }
    const std::vector<float> da = download(grads_->view(layer.adapter().a()));
    all.insert(all.end(), da.begin(), da.end());
    if (mode == 0) first = all;
    expect_same_bits(all, first, "dx and dA");
  }
}

TEST_P(AdapterTest, FreshAdaptersChangeNothing) {
  for (bool dora : {false, true}) {
    const ArenaScope scope(ctx_.persistent);
    plan_.dora = dora;
    plan_.linears["layers.0.linear"] = slices(4, 3, 0);
    const Linear layer = make_linear(true);
    weights_->initialise(ctx_, 3);
    const TensorView x = matrix(1, kWidth), y = tensor({kRows, layer.out()}, DType::fp32),
                     plain = tensor(y.shape, DType::fp32);
    Pass p = pass();
    layer.forward(p, x, y);
    const AdapterPlan with = plan_;
    plan_.linears.clear();
    const std::vector<float> weight = weights_->get(ctx_, layer.weight()), bias = weights_->get(ctx_, layer.bias());
    const Linear base = make_linear(true);
    weights_->set(ctx_, base.weight(), weight.data());
    weights_->set(ctx_, base.bias(), bias.data());
    Pass q = pass();
    base.forward(q, x, plain);
    expect_close(download(y), download(plain), 1e-6, "y");
    plan_ = with;
  }
}

TEST_P(AdapterTest, QuantisedBasesComputeWithWhatTheyHold) {
  plan_.linears["layers.0.linear"] = slices(4, 3, 2);
  for (WeightFormat format : {WeightFormat::int8, WeightFormat::nf4}) {
    for (bool dora : {false, true}) {
      const ArenaScope scope(ctx_.persistent);
      plan_.dora = dora;
      plan_.base = format;
      const Linear layer = make_linear(true);
      ASSERT_TRUE(weights_->is_quantised(layer.weight()));
      ASSERT_FALSE(weights_->is_quantised(layer.bias()));
      Pass p = pass();
      expect_all_gradients(layer, p, false);
      const std::vector<float> held = weights_->get(ctx_, layer.weight());
      const std::vector<float> given = random_values(layer.out() * kWidth, 100, 0.4f);
      for (size_t i = 0; i < held.size(); ++i) {
        EXPECT_NEAR(held[i], given[i], format == WeightFormat::int8 ? 0.4f / 250 : 0.4f * 0.16f);
      }
    }
  }
}

TEST_P(AdapterTest, DoraWithDropoutIsRefused) {
  plan_.dora = true;
  plan_.dropout = 0.1f;
  plan_.linears["layers.0.linear"] = slices(4, 3, 1);
  EXPECT_THROW(make_linear(true), Error);
}

INSTANTIATE_TEST_SUITE_P(Adapters, AdapterTest, testing::ValuesIn(fp32_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
