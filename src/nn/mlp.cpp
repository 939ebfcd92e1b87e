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
                        .init_std = options.init_std,
                        .owner_keeps_output = true});
  down_ = Linear(params, {.name = options.name + ".down",
                          .in = options.hidden,
                          .slices = {{"down", options.width}},
                          .bias = options.bias,
                          .init_std = options.out_init_std,
                          .owner_keeps_output = true});
}

void Mlp::forward_hidden(Pass& pass, const Operand& x, MlpSaved& saved) const {
  const NameScope scope(pass.ctx, "mlp");
  const int64_t rows = x.plain.rows();
  saved.gate_up = pass.slot(Slot::gate_up, {rows, up_.out()}, pass.weights.dtype(), "gate_up");
  up_.forward(pass, x, saved.gate_up);
  saved.hidden = pass.slot(Slot::hidden, {rows, options_.hidden}, pass.weights.dtype(), "hidden");
  activation_forward(pass.ctx, {.kind = options_.activation, .x = saved.gate_up, .y = Operand(saved.hidden)});
}

void Mlp::forward_down(Pass& pass, MlpSaved& saved, const TensorView& y) const {
  const NameScope scope(pass.ctx, "mlp");
  if (down_.needs_output() && pass.policy.keeps(Slot::gate_up)) {
    saved.out = pass.slot(Slot::gate_up, y.shape, y.dtype, "mlp out");
  }
  down_.forward(pass, Operand(saved.hidden), y, saved.out);
}

void Mlp::backward(Pass& pass, const MlpSaved& saved, const TensorView& dy, const TensorView& dx, float beta) const {
  const NameScope name(pass.ctx, "mlp");
  const ArenaScope scope(pass.ctx.scratch);
  const Shape shape{dy.rows(), options_.hidden};
  const TensorView dhidden = pass.scratch(shape, "d hidden");
  TensorView out = saved.out;
  if (down_.needs_output() && !out.defined()) {
    // The block ran again up to the activation: one step more.
    out = pass.scratch(dy.shape, "mlp out again");
    down_.forward(pass, Operand(saved.hidden), out);
  }
  const TensorView dout = down_.backward_magnitude(pass, out, dy, out);
  down_.backward_input(pass, dout, dhidden);
  // The kernel that reads gate_up for its gradient can write the activation's output again for next to nothing.
  const bool rebuilds = !saved.hidden.defined() && down_.reads_input(pass);
  const TensorView again = rebuilds ? pass.scratch(shape, "hidden again") : TensorView{};
  // In place, unless magnitudes still want the values.
  const TensorView dgate_up = up_.needs_output() ? pass.scratch(saved.gate_up.shape, "d gate_up") : saved.gate_up;
  const auto bias = pass.grads->write(up_.bias());
  activation_backward(pass.ctx, {.kind = options_.activation,
                                 .x = saved.gate_up,
                                 .dy = dhidden,
                                 .dx = dgate_up,
                                 .y = Operand(again),
                                 .dbias = bias.grad,
                                 .bias_beta = bias.beta});
  down_.backward_weight(pass, Operand(again.defined() ? again : saved.hidden), dout);
  down_.backward_bias(pass, dy);
  up_.backward_magnitude(pass, saved.gate_up, dgate_up, saved.gate_up);
  up_.backward_input(pass, saved.gate_up, dx, beta);
}

void Mlp::backward_weight(Pass& pass, const Operand& x, const MlpSaved& saved) const {
  const NameScope name(pass.ctx, "mlp");
  up_.backward_weight(pass, x, saved.gate_up);
}

}  // namespace gradmill
