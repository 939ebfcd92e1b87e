// SPDX-License-Identifier: Apache-2.0
#include "nn/linear.h"

#include "ops/bias_grad.h"
#include "ops/zero_extend.h"

namespace gradmill {
namespace {

// The three products of a layer. For a format other than the plain one these, and the memory for operands below, are
// the places to choose it.
Product output_product(const Operand& x, const Operand& weight, const TensorView& bias, const TensorView& y) {
  return {.a = x, .b = weight, .c = y, .transpose_b = true, .bias = bias};
}

Product input_gradient_product(const Operand& dy, const Operand& weight, const TensorView& dx, float beta = 0) {
  return {.a = dy, .b = weight, .c = dx, .beta = beta};
}

Product weight_gradient_product(const Operand& dy, const Operand& x, const Gradients::Target& target) {
  return {.a = dy, .b = x, .c = target.grad, .transpose_a = true, .beta = target.beta};
}

}  // namespace

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

Operand Linear::input(Pass& pass, Slot slot, int64_t rows, std::string_view what, const TensorView& buffer) const {
  return pass.slot(slot, {rows, in_}, pass.weights.dtype(), what, buffer);
}

Operand Linear::input_again(const Pass& pass, const Operand& kept, const TensorView& buffer) const {
  return !kept.defined() && reads_input(pass) ? buffer : TensorView{};
}

Operand Linear::output_gradient(Pass& pass, int64_t rows, std::string_view what, const TensorView& buffer) const {
  return buffer.defined() ? buffer : pass.scratch({rows, out_}, what);
}

void Linear::forward(Pass& pass, const Operand& x, const TensorView& y, const TensorView& kept) const {
  assert(!kept.defined() || needs_output());
  const ArenaScope scope(pass.ctx.scratch);
  const TensorView bias = bias_view(pass);
  // Gains multiply the output before its bias joins it.
  const bool bias_last = adapter_.dora() && adapts(pass);
  const Operand weight = pass.weights.plain(pass.ctx, weight_);
  run_product(pass.ctx, output_product(x, weight, bias_last ? TensorView{} : bias, y));
  if (adapts(pass)) adapter_.forward(pass, x.plain, bias_last ? bias : TensorView{}, y, kept);
}

Product Linear::forward_product(Pass& pass, const Operand& x, const TensorView& y, const TensorView& kept) const {
  if (is_one_product(pass)) return output_product(x, pass.weights[weight_], bias_view(pass), y);
  forward(pass, x, y, kept);
  return {};
}

Operand Linear::backward_magnitude(Pass& pass, const TensorView& y, const Operand& dy, const TensorView& dz) const {
  if (!needs_output()) return dy;
  adapter_.backward_magnitude(pass, y, bias_view(pass), dy.plain, dz);
  return dz;
}

void Linear::backward_input(Pass& pass, const Operand& dy, const TensorView& dx, float beta) const {
  const ArenaScope scope(pass.ctx.scratch);
  Operand dz = dy;
  if (makes_output_again()) {
    dz = pass.scratch(dy.plain.shape, "d scaled");
    adapter_.scale_gradient(pass, dy.plain, dz.plain);
  }
  run_product(pass.ctx, input_gradient_product(dz, pass.weights.plain(pass.ctx, weight_), dx, beta));
  if (adapter_.on()) adapter_.backward_input(pass, dz.plain, dx);
}

Product Linear::backward_input_product(Pass& pass, const Operand& dy) const {
  return is_one_product(pass) ? input_gradient_product(dy, pass.weights[weight_], {}) : Product{};
}

void Linear::backward_weight(Pass& pass, const Operand& x, const Operand& dy) const {
  const ArenaScope scope(pass.ctx.scratch);
  TensorView dz = dy.plain;
  if (makes_output_again()) {
    const TensorView y = dz = pass.scratch(dy.plain.shape, "output again");
    forward(pass, x, y);
    adapter_.backward_magnitude(pass, y, bias_view(pass), dy.plain, dz);
  }
  if (adapter_.on()) adapter_.backward_weight(pass, x.plain, dz);
  const auto target = pass.grads->write(weight_);
  if (target.grad.defined()) pass.deferred.add(pass.ctx, weight_gradient_product(dy, x, target));
}

void Linear::backward_bias(Pass& pass, const TensorView& dy) const {
  const auto target = pass.grads->write(bias_);
  if (target.grad.defined()) bias_grad(pass.ctx, {.dy = dy, .dbias = target.grad, .beta = target.beta});
}

Linear::Padded Linear::pad(Pass& pass, int64_t out) const {
  if (!is_one_product(pass)) return {};
  const auto extended = [&](ParamId id, const Shape& shape, std::string_view what) {
    const TensorView to = pass.scratch(shape, what);
    zero_extend(pass.ctx, {.from = pass.weights[id], .to = to});
    return to;
  };
  Padded padded{.weight = extended(weight_, {out, in_}, "padded weight")};
  if (bias_ != kNoParam) padded.bias = extended(bias_, {out}, "padded bias");
  return padded;
}

void Linear::forward(Pass& pass, const Padded& padded, const Operand& x, const TensorView& y) const {
  if (!padded.weight.defined()) return forward(pass, x, y.slice_cols(0, out_));
  run_product(pass.ctx, output_product(x, padded.weight, padded.bias, y));
}

void Linear::backward_input(Pass& pass, const Padded& padded, const TensorView& dy, const TensorView& dx) const {
  if (!padded.weight.defined()) return backward_input(pass, dy.slice_cols(0, out_), dx);
  run_product(pass.ctx, input_gradient_product(dy, padded.weight, dx));
}

}  // namespace gradmill
