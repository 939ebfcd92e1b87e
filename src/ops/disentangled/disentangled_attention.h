// SPDX-License-Identifier: Apache-2.0
// Disentangled attention (DeBERTa): attention whose logits also depend on the distance between query and key.
// logit[q, k] = scale * (q_q · k_k + q_q · pos_k[b] + k_k · pos_q[b]),  b = buckets[q - k]
// Tiled like ops/attention/attention: no T×T matrix is stored, in the forward or the backward.
#pragma once

#include <vector>

#include "ops/attention/attention.h"

namespace gradmill {

// How distances map to rows of the position table. With `log_buckets`: one by one up to size / 2, then logarithmically
// up to max_distance. Otherwise distances are clamped to `size`.
struct DistanceBuckets {
  int64_t size = 0;  // S: the table has 2 S rows
  int64_t max_distance = 0;
  bool log_buckets = true;
};
// The row of each distance q - k from -(max_len - 1) to max_len - 1: 2 * max_len - 1 numbers in non-decreasing order.
// Computed in fp32 like in transformers. The host uploads it once, as `buckets` below.
std::vector<int32_t> bucket_table(const DistanceBuckets& buckets, int64_t max_len);

struct DisentangledAttentionArgs {
  // As in attention_forward(), with kv_heads == heads, no mask, and queries that are the keys (cu_q and cu_kv are
  // equal). lse is the natural log of the softmax denominator.
  AttentionArgs content;
  // The position table (2 S rows) multiplied by the key and query projections. Rows may be strided. If one is
  // undefined, its term is omitted.
  TensorView pos_k;    // (P, H * D)   content-to-position term
  TensorView pos_q;    // (P, H * D)   position-to-content term
  TensorView buckets;  // (2 * L - 1) int32, L >= seq.max_len: bucket_table() for L positions; all rows below P
};
void disentangled_attention_forward(ExecContext& ctx, const DisentangledAttentionArgs& args);

struct DisentangledAttentionGradArgs {
  DisentangledAttentionArgs forward;  // with content.out and content.lse from the forward
  TensorView dout;                    // (N, H * D)
  TensorView dq, dk, dv;              // like q, k, v; written completely (padding rows are 0); rows may be strided
  // (P, H * D) like pos_k and pos_q, and defined iff those are. Sums over all sequences, written completely: rows that
  // no distance maps to become 0. Rows may be strided.
  TensorView dpos_k, dpos_q;
};
void disentangled_attention_backward(ExecContext& ctx, const DisentangledAttentionGradArgs& args);

// `workspace` must have as many fp32 elements as disentangled_workspace() returns.
int64_t disentangled_workspace(const ExecContext& ctx, const DisentangledAttentionGradArgs& args);
template <Device D, class T>
void disentangled_attention_forward(ExecContext& ctx, const DisentangledAttentionArgs& args);
template <Device D, class T>
void disentangled_attention_backward(ExecContext& ctx, const DisentangledAttentionGradArgs& args,
                                     const TensorView& workspace);

}  // namespace gradmill
