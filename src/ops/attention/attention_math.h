// SPDX-License-Identifier: Apache-2.0
// Attention like in a framework without fused kernels: it stores every T×T matrix of every head. A baseline.
#pragma once

#include "ops/attention/attention.h"

namespace gradmill {

// Supports only sequences of equal length without dropout.
inline bool math_supports(const AttentionArgs& args) { return args.seq.dense && !args.dropout; }

// The forward needs one T×T matrix per sequence and head in its workspace, the backward two.
inline int64_t math_workspace(const AttentionArgs& args, bool backward) {
  const int64_t matrix = args.seq.max_len * args.seq.max_len * static_cast<int64_t>(size_of(args.q.dtype));
  return args.seq.max_seqs * args.heads * matrix * (backward ? 2 : 1);
}

template <class T>
void math_forward(ExecContext& ctx, const AttentionArgs& args, const TensorView& workspace);
template <class T>
void math_backward(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& workspace);

}  // namespace gradmill
