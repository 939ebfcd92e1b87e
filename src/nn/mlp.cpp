// SPDX-License-Identifier: Apache-2.0
#include "nn/mlp.h"

#include "ops/matmul/matmul_activation.h"

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

bool Mlp::joins_activation(const Pass& pass) const {
  return pass.training() && up_.is_plain(pass) && down_.is_plain(pass);
}

void Mlp::forward_hidden(Pass& pass, const Operand& x, MlpSaved& saved, const TensorView& room) const {
  const NameScope scope(pass.ctx, "mlp");
  const int64_t rows = x.plain.rows();
  saved.gate_up = pass.slot(Slot::gate_up, {rows, up_.out()}, pass.weights.dtype(), "gate_up");
  saved.hidden = pass.slot(Slot::hidden, {rows, options_.hidden}, pass.weights.dtype(), "hidden", room);
  if (joins_activation(pass)) {
    return matmul_activation(pass.ctx, {.kind = options_.activation,
                                        .a = x.plain,
                                        .b = pass.weights[up_.weight()],
                                        .bias = up_.bias() == kNoParam ? TensorView{} : pass.weights[up_.bias()],
                                        .x = saved.gate_up,
                                        .y = saved.hidden,
                                        .exact = pass.policy.writes_again()});
  }
  up_.forward(pass, x, saved.gate_up);
  activation_forward(pass.ctx, {.kind = options_.activation, .x = saved.gate_up, .y = Operand(saved.hidden)});
}

MatmulArgs Mlp::forward_down(Pass& pass, MlpSaved& saved, const TensorView& y) const {
  const NameScope scope(pass.ctx, "mlp");
  if (down_.needs_output() && pass.policy.keeps(Slot::gate_up)) {
    saved.out = pass.slot(Slot::gate_up, y.shape, y.dtype, "mlp out");
  }
  return down_.forward_but_product(pass, Operand(saved.hidden), y, saved.out);
}

TensorView Mlp::backward(Pass& pass, const MlpSaved& saved, const TensorView& room, const TensorView& dy,
                         const TensorView& dx, float beta) const {
  const NameScope name(pass.ctx, "mlp");
  const bool gated = is_gated(options_.activation);
  const Shape shape{dy.rows(), options_.hidden};
  // In place where nobody wants the values any more.
  const bool in_place = gated && !up_.needs_output();
  TensorView dgate_up = in_place ? saved.gate_up : pass.scratch(saved.gate_up.shape, "d gate_up");
  const ArenaScope scope(pass.ctx.scratch);
  TensorView out = saved.out, hidden = saved.hidden;
  if (down_.needs_output() && !out.defined()) {
    // The block ran again up to the activation: one step more.
    out = pass.scratch(dy.shape, "mlp out again");
    down_.forward(pass, Operand(hidden), out);
  }
  const TensorView dout = down_.backward_magnitude(pass, out, dy, out);
  const auto bias = pass.grads->write(up_.bias());
  // The kernel that reads gate_up for its gradient can write the activation's output again for next to nothing.
  const bool rebuilds = !hidden.defined() && down_.reads_input(pass);
  const TensorView again = rebuilds ? room : TensorView{};
  if (rebuilds) pass.waiting.settle(pass.ctx, again);
  if (joins_activation(pass)) {
    MatmulActivationGradArgs product{.kind = options_.activation,
                                     .a = dout,
                                     .b = pass.weights[down_.weight()],
                                     .x = saved.gate_up,
                                     .dx = dgate_up,
                                     .y = again,
                                     .dbias = bias.grad,
                                     .bias_beta = bias.beta};
    // Then up's gradient can wait for those of other blocks (see WaitingGradients).
    if (matmul_activation_backward_can_overwrite(pass.ctx, product)) product.dx = dgate_up = saved.gate_up;
    matmul_activation_backward(pass.ctx, product);
  } else {
    const TensorView dhidden = gated ? pass.scratch(shape, "d hidden") : dgate_up;
    down_.backward_input(pass, dout, dhidden);
    activation_backward(pass.ctx, {.kind = options_.activation,
                                   .x = saved.gate_up,
                                   .dy = dhidden,
                                   .dx = dgate_up,
                                   .y = Operand(again),
                                   .dbias = bias.grad,
                                   .bias_beta = bias.beta});
  }
  if (rebuilds) hidden = again;
  down_.backward_weight(pass, Operand(hidden), dout);
  const TensorView dprojected = up_.backward_magnitude(pass, saved.gate_up, dgate_up, dgate_up);
  if (beta != 0) pass.waiting.settle(pass.ctx, dx);
  up_.backward_input(pass, dprojected, dx, beta);
  return dprojected;
}

}  // namespace gradmill
