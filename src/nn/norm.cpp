// SPDX-License-Identifier: Apache-2.0
#include "nn/norm.h"

namespace gradmill {

Norm::Norm(ParamTable& params, const Options& options)
    : kind_(options.kind), eps_(options.eps), offset_(options.offset) {
  // A norm starts as one that changes nothing.
  const Init init = offset_ == 1 ? Init::zeros : Init::ones;
  weight_ = params.add({.name = options.name + ".weight", .cols = options.width, .init = init});
  if (kind_ == NormKind::layer && options.bias) {
    bias_ = params.add({.name = options.name + ".bias", .cols = options.width, .init = Init::zeros});
  }
}

NormStats Norm::alloc_stats(Pass& pass, Slot slot, int64_t rows) const {
  NormStats stats;
  if (kind_ == NormKind::layer) stats.mean = pass.slot(slot, {rows}, DType::fp32, "mean");
  stats.rstd = pass.slot(slot, {rows}, DType::fp32, "rstd");
  return stats;
}

NormStats Norm::scratch_stats(Pass& pass, int64_t rows) const {
  NormStats stats;
  if (kind_ == NormKind::layer) stats.mean = pass.ctx.alloc_scratch({rows}, DType::fp32, "mean");
  stats.rstd = pass.ctx.alloc_scratch({rows}, DType::fp32, "rstd");
  return stats;
}

void Norm::forward(Pass& pass, const TensorView& x, const TensorView& delta, const Drop& drop, const TensorView& sum,
                   const NormStats& stats, const Operand& y, const Product& product) const {
  norm_forward(pass.ctx, {.kind = kind_,
                          .x = x,
                          .delta = delta,
                          .weight = pass.weights[weight_],
                          .bias = bias_ == kNoParam ? TensorView{} : pass.weights[bias_],
                          .sum = sum,
                          .mean = stats.mean,
                          .rstd = stats.rstd,
                          .y = y,
                          .eps = eps_,
                          .weight_offset = offset_,
                          .dropout = drop.on,
                          .dropout_site = drop.site,
                          .product = product});
}

Operand Norm::backward(Pass& pass, const Backward& call) const {
  const auto weight = pass.grads->write(weight_), bias = pass.grads->write(bias_);
  const auto branch = pass.grads->write(call.branch ? call.branch->bias() : kNoParam);
  const TensorView dropped = call.drop.on ? call.sum : TensorView{};
  Operand dbranch = call.drop.on ? dropped : call.dx;
  if (call.branch) dbranch = call.branch->output_gradient(pass, dbranch.rows(), "d branch", dbranch.plain);
  const bool collects = weight.grad.defined() || bias.grad.defined() || branch.grad.defined();
  pass.deferred.settle(pass.ctx, call.dx);
  if (call.y.defined()) pass.deferred.settle(pass.ctx, call.y.plain);
  norm_backward(pass.ctx, {.kind = kind_,
                           .sum = call.sum,
                           .mean = call.stats.mean,
                           .rstd = call.stats.rstd,
                           .weight = pass.weights[weight_],
                           .dy = call.dy,
                           .dresidual = call.dresidual,
                           .dx = call.dx,
                           .dweight = weight.grad,
                           .dbias = bias.grad,
                           .weight_beta = weight.beta,
                           .bias_beta = bias.beta,
                           .weight_offset = offset_,
                           .y = call.y,
                           .bias = bias_ == kNoParam ? TensorView{} : pass.weights[bias_],
                           .dropped = dropped,
                           .dropout_site = call.drop.site,
                           .dbranch_bias = branch.grad,
                           .branch_beta = branch.beta,
                           .later = call.defers && collects ? &pass.deferred.sums() : nullptr});
  return dbranch;
}

}  // namespace gradmill
