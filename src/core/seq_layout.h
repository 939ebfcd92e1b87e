// SPDX-License-Identifier: Apache-2.0
// SeqLayout: how the N rows of a batch form sequences. Only embedding, RoPE, attention, pooling and loss see it;
// padded, packed and unpadded batches are the same code.
#pragma once

#include "core/tensor_view.h"

namespace gradmill {

// Sequence s has query rows cu_q[s] .. cu_q[s+1) and key rows cu_kv[s] .. cu_kv[s+1); they differ with a KV cache,
// where the queries are the last rows of the keys. Unused entries repeat the last offset (empty sequences); rows
// from cu_q[max_seqs] on are padding. All three tensors are int32 and lie in device memory.
struct SeqLayout {
  TensorView positions;  // (N) position of each query row in its sequence
  TensorView cu_q;       // (max_seqs + 1)
  TensorView cu_kv;      // (max_seqs + 1)
  int64_t max_seqs = 0;
  int64_t max_len = 0;  // longest sequence the plan allows, in keys
  // The host knows that there are max_seqs sequences of max_len rows each, one after the other from row 0, and that
  // queries are keys: libraries have faster paths for that. False says nothing.
  bool dense = false;
};

// Rows are padded to this many, so that kernels need no ragged last tile.
inline constexpr int64_t kTokenPadding = 128;
inline int64_t token_capacity(int64_t tokens) { return (tokens + kTokenPadding - 1) / kTokenPadding * kTokenPadding; }

}  // namespace gradmill
