// SPDX-License-Identifier: Apache-2.0
#include "nn/linear.h"

#include "ops/bias_grad.h"
#include "ops/matmul.h"

namespace gradmill {

Linear::Linear(ParamTable& params, const Options& options) : in_(options.in), slices_(options.slices) {
  for (const Slice& slice : slices_) out_ += slice.rows;
  weight_ = options.tied_weight;
  if (weight_ == kNoParam) {
    weight_ = params.add({.name = options.name + ".weight", .rows = out_, .cols = in_, .init_std = options.init_std});
  }
  if (options.bias) bias_ = params.add({.name = options.name + ".bias", .cols = out_, .init = Init::zeros});
}

void Linear::forward(Pass& pass, const Operand& x, const TensorView& y) const {
  matmul(pass.ctx, {.a = x.plain,
                    .b = pass.weights[weight_],
                    .c = y,
                    .transpose_b = true,
                    .bias = bias_ == kNoParam ? TensorView{} : pass.weights[bias_]});
}

void Linear::backward_input(Pass& pass, const TensorView& dy, const TensorView& dx, float beta) const {
  matmul(pass.ctx, {.a = dy, .b = pass.weights[weight_], .c = dx, .beta = beta});
}

void Linear::backward_weight(Pass& pass, const Operand& x, const TensorView& dy) const {
  const auto target = pass.grads->write(weight_);
  if (!target.grad.defined()) return;
  matmul(pass.ctx, {.a = dy, .b = x.plain, .c = target.grad, .transpose_a = true, .beta = target.beta});
}

void Linear::backward_bias(Pass& pass, const TensorView& dy) const {
  const auto target = pass.grads->write(bias_);
  if (target.grad.defined()) bias_grad(pass.ctx, {.dy = dy, .dbias = target.grad, .beta = target.beta});
}

}  // namespace gradmill
