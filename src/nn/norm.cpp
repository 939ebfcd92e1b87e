// SPDX-License-Identifier: Apache-2.0
#include "nn/norm.h"

namespace gradmill {

Norm::Norm(ParamTable& params, const Options& options) : kind_(options.kind), eps_(options.eps) {
  weight_ = params.add({.name = options.name + ".weight", .cols = options.width, .init = Init::ones});
  if (kind_ == NormKind::layer) {
    bias_ = params.add({.name = options.name + ".bias", .cols = options.width, .init = Init::zeros});
  }
}

NormStats Norm::alloc_stats(Pass& pass, Slot slot, int64_t rows) const {
  NormStats stats;
  if (kind_ == NormKind::layer) stats.mean = pass.slot(slot, {rows}, DType::fp32, "mean");
  stats.rstd = pass.slot(slot, {rows}, DType::fp32, "rstd");
  return stats;
}

NormArgs Norm::args(const Pass& pass, const TensorView& x, const NormStats& stats, const Operand& y) const {
  return {.kind = kind_,
          .x = x,
          .weight = pass.weights[weight_],
          .bias = bias_ == kNoParam ? TensorView{} : pass.weights[bias_],
          .mean = stats.mean,
          .rstd = stats.rstd,
          .y = y,
          .eps = eps_};
}

void Norm::forward(Pass& pass, const TensorView& x, const TensorView& delta, const TensorView& sum,
                   const NormStats& stats, const Operand& y) const {
  NormArgs call = args(pass, x, stats, y);
  call.delta = delta;
  call.sum = sum;
  norm_forward(pass.ctx, call);
}

void Norm::rebuild(Pass& pass, const TensorView& sum, const NormStats& stats, const Operand& y) const {
  norm_rebuild(pass.ctx, args(pass, sum, stats, y));
}

void Norm::backward(Pass& pass, const TensorView& sum, const NormStats& stats, const TensorView& dy,
                    const TensorView& dresidual, const TensorView& dx) const {
  const auto weight = pass.grads->write(weight_), bias = pass.grads->write(bias_);
  norm_backward(pass.ctx, {.kind = kind_,
                           .sum = sum,
                           .mean = stats.mean,
                           .rstd = stats.rstd,
                           .weight = pass.weights[weight_],
                           .dy = dy,
                           .dresidual = dresidual,
                           .dx = dx,
                           .dweight = weight.grad,
                           .dbias = bias.grad,
                           .weight_beta = weight.beta,
                           .bias_beta = bias.beta});
}

}  // namespace gradmill
