// SPDX-License-Identifier: Apache-2.0
// AdamW over a range of the flat parameter space, and the steps before it: the global gradient norm and the verdict.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"
#include "core/segment.h"

namespace gradmill {

// Elements of the gradient whose squares are summed in fp32; the sums of these chunks are added in double.
inline constexpr int64_t kNormChunk = 16384;

// Computes scalars->grad_norm, finite, grad_factor, updates and bias corrections from the whole gradient (fp32, flat).
// If the gradient or mean loss is not finite, or the mean loss is above loss_limit, sets finite = 0 and keeps
// `updates`. grad_factor undoes the loss scale of this gradient. With scale_growth_steps, numbers that are not finite
// halve the scale (not below 1), and this many finite steps in a row double it (not above 2^24). A step that only
// loss_limit gates changes neither scale nor streak.
void prepare_update(ExecContext& ctx, const TensorView& grads);

// For elements begin .. end of the flat space:  g = grad * grad_factor;  m, v as usual;
//   w = w * (1 - lr * lr_scale * decay) - lr * lr_scale * m̂ / (√v̂ + eps)
// as PyTorch's AdamW does, with lr_scale and decay of the element's group in scalars->groups. Does nothing when
// scalars->finite is 0. Padding is updated like the parameter before it: with a zero gradient and moments, zeros stay
// zeros.
struct AdamWArgs {
  TensorView master;   // (P) fp32. All views begin at the start of an allocation, so they are aligned
  TensorView compute;  // (P) the weights that the step reads, written from master; undefined if the step reads master
  TensorView grads;    // (P) fp32
  TensorView m, v;     // (P) fp32
  TensorView block_groups;  // (P / kSegmentPadding) int8: the group of each block of kSegmentPadding elements
  int64_t begin = 0, end = 0;
};
void adamw(ExecContext& ctx, const AdamWArgs& args);

// `partials` (chunks, at least 1) fp32: one sum of squares per kNormChunk elements, added in order.
template <Device D, class T>
void prepare_update(ExecContext& ctx, const TensorView& grads, const TensorView& partials);
// T is the dtype of `compute` (float when undefined).
template <Device D, class T>
void adamw(ExecContext& ctx, const AdamWArgs& args);

}  // namespace gradmill
