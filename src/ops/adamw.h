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

// scalars->grad_norm, finite, grad_factor, updates and bias corrections from the whole gradient (fp32, flat).
// A non-finite gradient or loss sum sets finite = 0 and leaves `updates` alone.
void prepare_update(ExecContext& ctx, const TensorView& grads);

// For elements begin .. end of the flat space:  g = grad * grad_factor;  m, v as usual;
//   w = w * (1 - lr * lr_scale * decay) - lr * lr_scale * m̂ / (√v̂ + eps)
// as PyTorch's AdamW does. Does nothing when scalars->finite is 0.
struct AdamWArgs {
  TensorView master;   // (P) fp32
  TensorView compute;  // (P) the weights the step reads, written from master; undefined when master is read itself
  TensorView grads;    // (P) fp32
  TensorView m, v;     // (P) fp32
  std::span<const Segment> segments;  // sorted by begin
  std::span<const ParamGroup> groups;
  int64_t begin = 0, end = 0;
};
void adamw(ExecContext& ctx, const AdamWArgs& args);

// `partials` (chunks) fp32: one sum of squares per kNormChunk elements, added in order.
template <Device D, class T>
void prepare_update(ExecContext& ctx, const TensorView& grads, const TensorView& partials);
// T is the dtype of `compute` (float when undefined).
template <Device D, class T>
void adamw(ExecContext& ctx, const AdamWArgs& args);

}  // namespace gradmill
