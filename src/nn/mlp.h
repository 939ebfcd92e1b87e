// SPDX-License-Identifier: Apache-2.0
// The feed-forward layer: up (or gate and up side by side), activation, down.
#pragma once

#include "nn/linear.h"
#include "nn/pass.h"
#include "ops/activation.h"

namespace gradmill {

struct MlpSaved {
  TensorView gate_up;  // (N, F) or (N, 2F)
  Operand hidden;      // (N, F); undefined when not kept
  TensorView out;      // (N, C) the output, only if down has magnitudes to learn; undefined when not kept
};

class Mlp {
 public:
  struct Options {
    std::string name;
    int64_t width = 0, hidden = 0;
    Activation activation = Activation::swiglu;
    bool bias = false;
    float init_std = 0.02f, out_init_std = 0.02f;
  };

  Mlp() = default;
  Mlp(ParamTable& params, const Options& options);

  int64_t hidden_width() const { return options_.hidden; }
  const Linear& up() const { return up_; }
  const Linear& down() const { return down_; }

  // The first half of the forward computes gate_up and hidden, which the backward needs. `buffer` is memory for hidden,
  // or undefined.
  void forward_hidden(Pass& pass, const Operand& x, MlpSaved& saved, const TensorView& buffer = {}) const;
  // The second half computes y, or returns the product that makes it (see Linear::forward_product).
  [[nodiscard]] Product forward_down(Pass& pass, MlpSaved& saved, const TensorView& y) const;
  // Everything but two gradients: that of up's weight, which the caller adds once it has x, by
  // up().backward_weight(pass, x, result), and that of down's bias, which the kernel that writes dy can sum up; else
  // call down().backward_bias(pass, dy). The result stands for the gradient of gate_up. It lies over gate_up, or in
  // scratch until the caller's scope ends. dx = the input's gradient + beta * dx; dx may be dy. `buffer` is memory for
  // hidden where that was not kept.
  Operand backward(Pass& pass, const MlpSaved& saved, const TensorView& buffer, const Operand& dy, const TensorView& dx,
                   float beta = 0) const;

 private:
  Options options_;
  Linear up_, down_;
};

}  // namespace gradmill
