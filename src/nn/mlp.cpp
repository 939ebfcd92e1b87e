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

TensorView Mlp::activate(Pass& pass, const TensorView& gate_up) const {
  const TensorView hidden = pass.slot(Slot::hidden, {gate_up.rows(), options_.hidden}, gate_up.dtype, "hidden");
  activation_forward(pass.ctx, {.kind = options_.activation, .x = gate_up, .y = Operand(hidden)});
  return hidden;
}

void Mlp::forward_hidden(Pass& pass, const Operand& x, MlpSaved& saved) const {
  const NameScope scope(pass.ctx, "mlp");
  saved.gate_up = pass.slot(Slot::gate_up, {x.plain.rows(), up_.out()}, pass.weights.dtype(), "gate_up");
  up_.forward(pass, x, saved.gate_up);
  saved.hidden = activate(pass, saved.gate_up);
}

void Mlp::forward(Pass& pass, const Operand& x, MlpSaved& saved, const TensorView& y) const {
  forward_hidden(pass, x, saved);
  down_.forward(pass, Operand(saved.hidden), y);
  if (!pass.policy.keeps(Slot::hidden)) saved.hidden = {};
}

void Mlp::backward(Pass& pass, const Operand& x, const MlpSaved& saved, const TensorView& dy,
                   const TensorView& dx) const {
  const NameScope name(pass.ctx, "mlp");
  const ArenaScope scope(pass.ctx.scratch);
  const TensorView hidden = saved.hidden.defined() ? saved.hidden : activate(pass, saved.gate_up);
  const TensorView dhidden = pass.scratch({dy.rows(), options_.hidden}, "d hidden");
  down_.backward(pass, Operand(hidden), dy, dhidden);
  activation_backward(pass.ctx, {.kind = options_.activation, .x = saved.gate_up, .dy = dhidden, .dx = saved.gate_up});
  up_.backward(pass, x, saved.gate_up, dx);
}

}  // namespace gradmill
