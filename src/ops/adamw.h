// SPDX-License-Identifier: Apache-2.0
// AdamW over a range of the flat parameter space, and what comes before it: the global gradient norm and the verdict.
#pragma once

#include <span>

#include "core/exec_context.h"
#include "core/run_op.h"
#include "core/segment.h"

namespace gradmill {

// Elements of the gradient whose squares are summed in fp32; these sums are added in double.
inline constexpr int64_t kNormChunk = 16384;

// Groups that a flat space can have: they travel to a kernel by value.
inline constexpr int kMaxParamGroups = 8;

// scalars->grad_norm, finite, grad_factor, updates and bias corrections from the whole gradient (fp32, flat).
// A gradient or mean loss that is not finite, or a mean loss above loss_limit, sets finite = 0 and leaves `updates`
// alone. grad_factor undoes the loss scale that this gradient was made with; then, with scale_growth_steps, numbers
// that are not finite halve the scale (not below 1) and a streak of so many finite steps doubles it (not above 2^24). A
// step that only loss_limit gates leaves scale and streak alone.
void prepare_update(ExecContext& ctx, const TensorView& grads);

// For elements begin .. end of the flat space:  g = grad * grad_factor;  m, v as usual;
//   w = w * (1 - lr * lr_scale * decay) - lr * lr_scale * m̂ / (√v̂ + eps)
// as PyTorch's AdamW does. Does nothing when scalars->finite is 0. Padding is updated like the parameter before it:
// with a zero gradient and moments, zeros stay zeros.
struct AdamWArgs {
  TensorView master;        // (P) fp32. This and the others begin where an arena put them: aligned
  TensorView compute;       // (P) the weights the step reads, written from master; undefined when master is read itself
  TensorView grads;         // (P) fp32
  TensorView m, v;          // (P) fp32
  TensorView block_groups;  // (P / kSegmentPadding) int8: the group of each block of so many elements
  std::span<const ParamGroup> groups;  // at most kMaxParamGroups
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
