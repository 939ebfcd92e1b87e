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

void Mlp::forward_hidden(Pass& pass, const Operand& x, MlpSaved& saved, const TensorView& buffer) const {
  const NameScope scope(pass.ctx, "mlp");
  const int64_t rows = x.rows();
  saved.gate_up = pass.slot(Slot::gate_up, {rows, up_.out()}, pass.weights.dtype(), "gate_up");
  saved.hidden = down_.input(pass, Slot::hidden, rows, "hidden", buffer);
  Product product = up_.forward_product(pass, x, saved.gate_up);
  if (!pass.training()) finish_product(pass.ctx, product);
  matmul_activation(pass.ctx, {.kind = options_.activation,
                               .product = product,
                               .x = saved.gate_up,
                               .y = saved.hidden,
                               .exact = pass.policy.writes_again()});
}

Product Mlp::forward_down(Pass& pass, MlpSaved& saved, const TensorView& y) const {
  const NameScope scope(pass.ctx, "mlp");
  if (down_.needs_output() && pass.policy.keeps(Slot::gate_up)) {
    saved.out = pass.slot(Slot::gate_up, y.shape, y.dtype, "mlp out");
  }
  return down_.forward_product(pass, saved.hidden, y, saved.out);
}

Operand Mlp::backward(Pass& pass, const MlpSaved& saved, const TensorView& buffer, const Operand& dy,
                      const TensorView& dx, float beta) const {
  const NameScope name(pass.ctx, "mlp");
  const bool gated = is_gated(options_.activation);
  const int64_t rows = dy.rows();
  // A gated gradient is written over gate_up, unless that is still read.
  const bool in_place = gated && !up_.needs_output();
  Operand dgate_up = up_.output_gradient(pass, rows, "d gate_up", in_place ? saved.gate_up : TensorView{});
  const ArenaScope scope(pass.ctx.scratch);
  TensorView out = saved.out;
  if (down_.needs_output() && !out.defined()) {
    // The block was run again up to the activation; this is one step more.
    out = pass.scratch({rows, down_.out()}, "mlp out again");
    down_.forward(pass, saved.hidden, out);
  }
  const Operand dout = down_.backward_magnitude(pass, out, dy, out);
  const auto bias = pass.grads->write(up_.bias());
  // The kernel that reads gate_up for its gradient can write the activation's output again for next to nothing.
  const Operand again = down_.input_again(pass, saved.hidden, buffer);
  if (again.defined()) pass.deferred.settle(pass.ctx, buffer);
  if (const Product product = down_.backward_input_product(pass, dout); product.defined()) {
    MatmulActivationGradArgs args{.kind = options_.activation,
                                  .product = product,
                                  .x = saved.gate_up,
                                  .dx = dgate_up,
                                  .y = again,
                                  .dbias = bias.grad,
                                  .bias_beta = bias.beta};
    // Over gate_up, the gradient stays and up's weight gradient can be deferred (see DeferredGradients).
    if (!up_.needs_output() && matmul_activation_backward_can_overwrite(pass.ctx, args)) {
      args.dx.plain = dgate_up.plain = saved.gate_up;
    }
    matmul_activation_backward(pass.ctx, args);
  } else {
    const TensorView dhidden = gated ? pass.scratch({rows, options_.hidden}, "d hidden") : dgate_up.plain;
    down_.backward_input(pass, dout, dhidden);
    activation_backward(pass.ctx, {.kind = options_.activation,
                                   .x = saved.gate_up,
                                   .dy = dhidden,
                                   .dx = dgate_up,
                                   .y = again,
                                   .dbias = bias.grad,
                                   .bias_beta = bias.beta});
  }
  down_.backward_weight(pass, again.defined() ? again : saved.hidden, dout);
  const Operand dprojected = up_.backward_magnitude(pass, saved.gate_up, dgate_up, dgate_up.plain);
  if (beta != 0) pass.deferred.settle(pass.ctx, dx);
  up_.backward_input(pass, dprojected, dx, beta);
  return dprojected;
}

}  // namespace gradmill
