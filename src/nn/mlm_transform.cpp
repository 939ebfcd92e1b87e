// SPDX-License-Identifier: Apache-2.0
#include "nn/mlm_transform.h"

namespace gradmill {

MlmTransform::MlmTransform(ParamTable& params, const Options& options) : activation_(options.activation) {
  assert(!is_gated(activation_));
  dense_ = Linear(params, {.name = options.name + ".transform",
                           .in = options.width,
                           .slices = {{"dense", options.width}},
                           .bias = options.bias,
                           .init_std = options.init_std});
  Norm::Options norm = options.norm;
  norm.name = options.name + ".norm";
  norm.width = options.width;
  norm_ = Norm(params, norm);
}

MlmTransform::Saved MlmTransform::forward(Pass& pass, const TensorView& x) const {
  Saved saved{.dense = pass.scratch(x.shape, "transform"),
              .activated = pass.scratch(x.shape, "transform activated"),
              .y = pass.scratch(x.shape, "transform normed"),
              .stats = norm_.scratch_stats(pass, x.rows())};
  dense_.forward(pass, x, saved.dense);
  activation_forward(pass.ctx, {.kind = activation_, .x = saved.dense, .y = saved.activated});
  norm_.forward(pass, saved.activated, {}, {}, {}, saved.stats, saved.y);
  return saved;
}

void MlmTransform::backward(Pass& pass, const TensorView& x, const Saved& saved, const TensorView& dy) const {
  norm_.backward(pass, {.sum = saved.activated, .stats = saved.stats, .dy = dy, .dx = dy});
  const auto bias = pass.grads->write(dense_.bias());
  activation_backward(
      pass.ctx,
      {.kind = activation_, .x = saved.dense, .dy = dy, .dx = saved.dense, .dbias = bias.grad, .bias_beta = bias.beta});
  dense_.backward_weight(pass, x, saved.dense);
  dense_.backward_input(pass, saved.dense, dy);
}

}  // namespace gradmill
