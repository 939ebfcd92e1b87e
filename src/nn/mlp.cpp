// SPDX-License-Identifier: Apache-2.0
#include "nn/mlp.h"

namespace gradmill {

Mlp::Mlp(ParamTable& params, const Options& options) : options_(options) {
  std::vector<Linear::Slice> slices = {{"up", options.hidden}};
  if (is_gated(options.activation)) slices.insert(slices.begin(), {"gate", options.hidden});
  up_ = Linear(params, {.name = options.name + ".up",
                        .in = options.width,
                        .slices = slices,
                        .bias = options.bias,
                        .init_std = options.init_std});
  down_ = Linear(params, {.name = options.name + ".down",
                          .in = options.hidden,
                          .slices = {{"down", options.width}},
                          .bias = options.bias,
                          .init_std = options.out_init_std});
}

void Mlp::forward_hidden(Pass& pass, const Operand& x, MlpSaved& saved) const {
  const NameScope scope(pass.ctx, "mlp");
  const int64_t rows = x.plain.rows();
  saved.gate_up = pass.slot(Slot::gate_up, {rows, up_.out()}, pass.weights.dtype(), "gate_up");
  up_.forward(pass, x, saved.gate_up);
  saved.hidden = pass.slot(Slot::hidden, {rows, options_.hidden}, pass.weights.dtype(), "hidden");
  activation_forward(pass.ctx, {.kind = options_.activation, .x = saved.gate_up, .y = Operand(saved.hidden)});
}

void Mlp::forward_down(Pass& pass, const MlpSaved& saved, const TensorView& y) const {
  const NameScope scope(pass.ctx, "mlp");
  down_.forward(pass, Operand(saved.hidden), y);
}

void Mlp::backward(Pass& pass, const MlpSaved& saved, const TensorView& dy, const TensorView& dx, float beta) const {
  const NameScope name(pass.ctx, "mlp");
  const ArenaScope scope(pass.ctx.scratch);
  const Shape shape{dy.rows(), options_.hidden};
  const TensorView dhidden = pass.scratch(shape, "d hidden");
  down_.backward_input(pass, dy, dhidden);
  // The kernel that reads gate_up for its gradient can write the activation's output again for next to nothing.
  const bool rebuilds = !saved.hidden.defined() && down_.reads_input(pass);
  const TensorView again = rebuilds ? pass.scratch(shape, "hidden again") : TensorView{};
  const auto bias = pass.grads->write(up_.bias());
  activation_backward(pass.ctx, {.kind = options_.activation,
                                 .x = saved.gate_up,
                                 .dy = dhidden,
                                 .dx = saved.gate_up,
                                 .y = Operand(again),
                                 .dbias = bias.grad,
                                 .bias_beta = bias.beta});
  down_.backward_weight(pass, Operand(again.defined() ? again : saved.hidden), dy);
  down_.backward_bias(pass, dy);
  up_.backward_input(pass, saved.gate_up, dx, beta);
}

void Mlp::backward_weight(Pass& pass, const Operand& x, const MlpSaved& saved) const {
  const NameScope name(pass.ctx, "mlp");
  up_.backward_weight(pass, x, saved.gate_up);
}

}  // namespace gradmill
