// SPDX-License-Identifier: Apache-2.0
// Host functions shared by the files of disentangled attention.
#pragma once

#include "cuda/engine.h"
#include "cuda/numeric.cuh"
#include "cuda/shared_limit.h"
#include "ops/disentangled/disentangled_attention.h"

namespace gradmill::disentangled {

// With matrix units: for heads of up to 128 columns whose rows can be moved 16 bytes at a time, from compute capability
// 8.0 on. For other cases returns false and does nothing. `delta` (H, N): sum of out * dout. For `partials` see
// DiagonalTasks.
template <class T>
bool matrix_forward(ExecContext& ctx, const DisentangledAttentionArgs& args);
template <class T>
bool matrix_backward(ExecContext& ctx, const DisentangledAttentionGradArgs& args, const TensorView& delta,
                     const TensorView& partials);

// Without matrix units: fp32 arithmetic throughout, for any head and any GPU.
template <class T>
void simt_forward(ExecContext& ctx, const DisentangledAttentionArgs& args);
template <class T>
void simt_backward(ExecContext& ctx, const DisentangledAttentionGradArgs& args, const TensorView& delta,
                   const TensorView& partials);

// Adds the partial sums of either version to the gradients of the tables.
template <class T>
void add_table_partials(ExecContext& ctx, const DisentangledAttentionGradArgs& args, const TensorView& partials);

inline bool fits(const ExecContext& ctx, size_t shared_bytes) {
  const int capability = ctx.cuda->compute_capability();
  return capability >= 80 && shared_bytes <= cuda::shared_limit(capability);
}

template <class T>
bool moves_vectors(const DisentangledAttentionArgs& args) {
  const AttentionArgs& content = args.content;
  bool all = content.head_dim % 8 == 0 && content.head_dim <= 128;
  for (const TensorView& view : {content.q, content.k, content.v, content.out, args.pos_k, args.pos_q}) {
    all = all && (!view.defined() || cuda::rows_are_aligned<T>(view));
  }
  return all;
}

}  // namespace gradmill::disentangled
