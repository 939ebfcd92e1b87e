// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of layers: parameters with values, a layout of ragged sequences, gradient checks of all
// parameters.
#pragma once

#include <cmath>
#include <numeric>
#include <optional>

#include "nn/pass.h"
#include "support/op_test.h"

namespace gradmill::test {

inline constexpr int64_t kRows = 22, kWidth = 24;

class LayerTest : public OpTest {
 protected:
  // In differences of nearly equal values, the rounding of tf32 would show.
  LayerTest() { ctx_.kernels.tf32 = false; }

  // Random parameters of about their usual size, and the layout of three ragged sequences with two padding rows.
  void build() {
    weights_.emplace(ctx_, params_, DType::fp32);
    grads_.emplace(ctx_, params_);
    for (ParamId id = 0; id < params_.size(); ++id) {
      const ParamSpec& spec = params_.spec(id);
      std::vector<float> values =
          random_values(spec.numel(), 100 + static_cast<uint32_t>(id), spec.is_matrix() ? 0.4f : 0.3f);
      if (spec.init == Init::ones) {
        for (float& value : values) value += 1;
      }
      weights_->set(ctx_, id, values.data());
    }
    const std::vector<int32_t> offsets = {0, 9, 10, 20};
    std::vector<int32_t> positions(kRows, 0);
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      std::iota(positions.begin() + offsets[s], positions.begin() + offsets[s + 1], 0);
    }
    seq_.positions = upload(positions);
    seq_.cu_q = seq_.cu_kv = upload(offsets);
    seq_.max_seqs = 3;
    seq_.max_len = 10;
  }

  Pass pass() {
    return {.ctx = ctx_,
            .weights = *weights_,
            .grads = &*grads_,
            .seq = seq_,
            .policy = SavePolicy::none(),
            .tables = {.rope = rope_table_}};
  }

  TensorView matrix(uint32_t seed, int64_t cols = kWidth) {
    return upload(random_values(kRows * cols, seed), {kRows, cols}, DType::fp32);
  }

  void make_rope_table(int64_t dim) {
    std::vector<float> values;
    for (int64_t position = 0; position < 10; ++position) {
      for (int64_t j = 0; j < dim; ++j) {
        const float angle = static_cast<float>(position) / std::pow(100.0f, static_cast<float>(j % (dim / 2)));
        values.push_back(j < dim / 2 ? std::cos(angle) : std::sin(angle));
      }
    }
    rope_table_ = upload(values, {10, dim}, DType::fp32);
  }

  // forward() must fill `output`; backward() must fill the gradients and `dinput`.
  void expect_all_gradients(const std::function<void()>& forward, const std::function<void()>& backward,
                            const TensorView& output, const TensorView& doutput, const TensorView& input,
                            const TensorView& dinput) {
    grads_->begin_step();
    forward();
    backward();
    ASSERT_TRUE(grads_->all_written());
    const GradientCheck check{.forward = forward, .output = output, .doutput = download(doutput), .tolerance = 1e-2};
    if (input.defined()) expect_gradient(check, input, download(dinput), "the input");
    for (ParamId id = 0; id < params_.size(); ++id) {
      expect_gradient(check, (*weights_)[id], download(grads_->view(id)), params_.spec(id).name);
    }
  }

  ParamTable params_;
  std::optional<Weights> weights_;
  std::optional<Gradients> grads_;
  SeqLayout seq_;
  const Arena::Mark start_ = ctx_.persistent.mark();
  TensorView rope_table_;
};

}  // namespace gradmill::test
