// SPDX-License-Identifier: Apache-2.0
// What the files of disentangled attention share on the host.
#pragma once

#include "cuda/engine.h"
#include "cuda/numeric.cuh"
#include "cuda/shared_limit.h"
#include "ops/disentangled/disentangled_attention.h"

namespace gradmill::disentangled {

// With matrix units: heads of up to 128 columns whose rows can be moved 16 bytes at a time, from compute capability 8.0
// on. False, and nothing is done, for others. `delta` (H, N): sum of out * dout; `partials`: see DiagonalTasks.
template <class T>
bool matrix_forward(ExecContext& ctx, const DisentangledAttentionArgs& args);
template <class T>
bool matrix_backward(ExecContext& ctx, const DisentangledAttentionGradArgs& args, const TensorView& delta,
                     const TensorView& partials);

// Without: fp32 arithmetic throughout, for any head and any GPU.
template <class T>
void simt_forward(ExecContext& ctx, const DisentangledAttentionArgs& args);
template <class T>
void simt_backward(ExecContext& ctx, const DisentangledAttentionGradArgs& args, const TensorView& delta,
                   const TensorView& partials);

// The gradients of the tables from the partial sums of either.
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
