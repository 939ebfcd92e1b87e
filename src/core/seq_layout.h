// SPDX-License-Identifier: Apache-2.0
// SeqLayout: how the N rows of a batch form sequences. Only embedding, RoPE, attention, pooling and loss use it.
// Padded, packed and unpadded batches run the same code.
#pragma once

#include "core/tensor_view.h"

namespace gradmill {

// Sequence s has the query rows cu_q[s] .. cu_q[s+1) and the key rows cu_kv[s] .. cu_kv[s+1). The two differ with a KV
// cache, where the queries are the last rows of the keys. Unused entries repeat the last offset, which makes empty
// sequences. Rows from cu_q[max_seqs] on are padding. All three tensors are int32 in device memory.
struct SeqLayout {
  TensorView positions;  // (N) position of each query row in its sequence
  TensorView cu_q;       // (max_seqs + 1)
  TensorView cu_kv;      // (max_seqs + 1)
  int64_t max_seqs = 0;
  int64_t max_len = 0;  // number of keys in the longest sequence that the plan allows
  // True when the host knows that there are max_seqs sequences of max_len rows each, stored one after the other from
  // row 0, and that queries and keys are the same rows. Libraries have faster paths for this case. False is always
  // allowed.
  bool dense = false;
};

// The number of rows is padded to a multiple of this, so that kernels need no ragged last tile.
inline constexpr int64_t kTokenPadding = 128;
inline int64_t token_capacity(int64_t tokens) { return (tokens + kTokenPadding - 1) / kTokenPadding * kTokenPadding; }

}  // namespace gradmill
