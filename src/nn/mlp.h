// SPDX-License-Identifier: Apache-2.0
// The feed-forward layer: up (or gate and up side by side), activation, down.
#pragma once

#include "nn/linear.h"
#include "nn/pass.h"
#include "ops/activation.h"

namespace gradmill {

struct MlpSaved {
  TensorView gate_up;  // (N, F) or (N, 2F)
  TensorView hidden;   // (N, F); undefined when not kept
  TensorView out;      // (N, C) the output, only where down has magnitudes to learn; undefined when not kept
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

  OperandSpec input_spec() const { return up_.input_spec(); }
  int64_t hidden_width() const { return options_.hidden; }
  const Linear& up() const { return up_; }
  const Linear& down() const { return down_; }

  // gate_up and hidden, which the backward needs; then the rest, which it does not, but for what is left.
  // `room`: for `hidden`, or undefined.
  void forward_hidden(Pass& pass, const Operand& x, MlpSaved& saved, const TensorView& room = {}) const;
  [[nodiscard]] MatmulArgs forward_down(Pass& pass, MlpSaved& saved, const TensorView& y) const;
  // All but the gradients of up's weight, which the caller adds when it has x: up().backward_weight(pass, x, result),
  // and of down's bias, which who makes dy can add up on the way: down().backward_bias(pass, dy). The result takes the
  // place of gate_up's gradient: over it, or in scratch until the caller's scope ends. dx = the input's gradient +
  // beta * dx; it may be dy. `room`: for `hidden`, where that was not kept.
  TensorView backward(Pass& pass, const MlpSaved& saved, const TensorView& room, const TensorView& dy,
                      const TensorView& dx, float beta = 0) const;

 private:
  // A product and the activation are one op.
  bool joins_activation(const Pass& pass) const;

  Options options_;
  Linear up_, down_;
};

}  // namespace gradmill
