// SPDX-License-Identifier: Apache-2.0
#include "nn/linear.h"

#include "ops/bias_grad.h"
#include "ops/matmul/matmul.h"

namespace gradmill {

Linear::Linear(ParamTable& params, const Options& options)
    : in_(options.in), slices_(options.slices), owner_keeps_output_(options.owner_keeps_output) {
  for (const Slice& slice : slices_) out_ += slice.rows;
  weight_ = options.tied_weight;
  if (weight_ == kNoParam) {
    const std::string name = options.name + ".weight";
    weight_ = params.add({.name = name,
                          .rows = out_,
                          .cols = in_,
                          .init_std = options.init_std,
                          .linear = true,
                          .format = params.plan().format_of(options.name, name)});
  }
  if (options.bias) bias_ = params.add({.name = options.name + ".bias", .cols = out_, .init = Init::zeros});
  adapter_ = Adapter(params, {.name = options.name, .weight = weight_, .in = in_, .out = out_});
}

void Linear::forward(Pass& pass, const Operand& x, const TensorView& y, const TensorView& kept) const {
  assert(!kept.defined() || needs_output());
  const ArenaScope scope(pass.ctx.scratch);
  const TensorView bias = bias_view(pass);
  // Gains multiply the output before its bias joins it.
  const bool bias_last = adapter_.dora() && adapts(pass);
  matmul(pass.ctx, {.a = x.plain,
                    .b = pass.weights.plain(pass.ctx, weight_),
                    .c = y,
                    .transpose_b = true,
                    .bias = bias_last ? TensorView{} : bias});
  if (adapts(pass)) adapter_.forward(pass, x.plain, bias_last ? bias : TensorView{}, y, kept);
}

MatmulArgs Linear::forward_but_product(Pass& pass, const Operand& x, const TensorView& y,
                                       const TensorView& kept) const {
  if (is_plain(pass)) {
    return {.a = x.plain, .b = pass.weights[weight_], .c = y, .transpose_b = true, .bias = bias_view(pass)};
  }
  forward(pass, x, y, kept);
  return {};
}

TensorView Linear::backward_magnitude(Pass& pass, const TensorView& y, const TensorView& dy,
                                      const TensorView& dz) const {
  if (!needs_output()) return dy;
  adapter_.backward_magnitude(pass, y, bias_view(pass), dy, dz);
  return dz;
}

void Linear::backward_input(Pass& pass, const TensorView& dy, const TensorView& dx, float beta) const {
  const ArenaScope scope(pass.ctx.scratch);
  TensorView dz = dy;
  if (makes_output_again()) {
    dz = pass.scratch(dy.shape, "d scaled");
    adapter_.scale_gradient(pass, dy, dz);
  }
  matmul(pass.ctx, {.a = dz, .b = pass.weights.plain(pass.ctx, weight_), .c = dx, .beta = beta});
  if (adapter_.on()) adapter_.backward_input(pass, dz, dx);
}

void Linear::backward_weight(Pass& pass, const Operand& x, const TensorView& dy) const {
  const ArenaScope scope(pass.ctx.scratch);
  TensorView dz = dy;
  if (makes_output_again()) {
    const TensorView y = dz = pass.scratch(dy.shape, "output again");
    forward(pass, x, y);
    adapter_.backward_magnitude(pass, y, bias_view(pass), dy, dz);
  }
  if (adapter_.on()) adapter_.backward_weight(pass, x.plain, dz);
  const auto target = pass.grads->write(weight_);
  if (!target.grad.defined()) return;
  pass.waiting.add(pass.ctx, {.a = dy, .b = x.plain, .c = target.grad, .transpose_a = true, .beta = target.beta});
}

void Linear::backward_bias(Pass& pass, const TensorView& dy) const {
  const auto target = pass.grads->write(bias_);
  if (target.grad.defined()) bias_grad(pass.ctx, {.dy = dy, .dbias = target.grad, .beta = target.beta});
}

}  // namespace gradmill
