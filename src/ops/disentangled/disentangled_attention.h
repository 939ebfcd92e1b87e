// SPDX-License-Identifier: Apache-2.0
// Disentangled attention (DeBERTa): attention whose logits also know how far apart query and key stand.
//   logit[q, k] = scale * (q_q · k_k + q_q · pos_k[b] + k_k · pos_q[b]),  b = buckets[q - k]
// Tiled as ops/attention/attention is: no T×T matrix is stored, forward or backward.
#pragma once

#include <vector>

#include "ops/attention/attention.h"

namespace gradmill {

// How distances become rows of the position table: with `log_buckets` one by one up to size / 2, then by logarithm up
// to max_distance; else they are cut off at `size`.
struct DistanceBuckets {
  int64_t size = 0;  // S: the table has 2 S rows
  int64_t max_distance = 0;
  bool log_buckets = true;
};
// The row of each distance q - k from -(max_len - 1) to max_len - 1: 2 * max_len - 1 numbers, never falling. fp32
// arithmetic, as transformers does it. For the host to upload once, as `buckets` below.
std::vector<int32_t> bucket_table(const DistanceBuckets& buckets, int64_t max_len);

struct DisentangledAttentionArgs {
  // As for attention_forward(), with kv_heads == heads, queries that are the keys (cu_q and cu_kv hold the same) and no
  // mask. lse is the natural log of the softmax denominator.
  AttentionArgs content;
  // The position table (2 S rows) through the keys' and the queries' projection. Rows may be strided. An undefined one
  // leaves its term out.
  TensorView pos_k;    // (P, H * D)   content to position
  TensorView pos_q;    // (P, H * D)   position to content
  TensorView buckets;  // (2 * L - 1) int32, L >= seq.max_len: bucket_table() for L positions; rows below P
};
void disentangled_attention_forward(ExecContext& ctx, const DisentangledAttentionArgs& args);

struct DisentangledAttentionGradArgs {
  DisentangledAttentionArgs forward;  // content.out and content.lse as the forward left them
  TensorView dout;                    // (N, H * D)
  TensorView dq, dk, dv;              // like q, k, v; written whole (padding rows 0); rows may be strided
  // (P, H * D) like pos_k and pos_q, and defined iff those are: sums over all sequences, written whole (rows that no
  // distance has become 0); rows may be strided.
  TensorView dpos_k, dpos_q;
};
void disentangled_attention_backward(ExecContext& ctx, const DisentangledAttentionGradArgs& args);

// `workspace`: as many fp32 numbers as disentangled_workspace() says.
int64_t disentangled_workspace(const ExecContext& ctx, const DisentangledAttentionGradArgs& args);
template <Device D, class T>
void disentangled_attention_forward(ExecContext& ctx, const DisentangledAttentionArgs& args);
template <Device D, class T>
void disentangled_attention_backward(ExecContext& ctx, const DisentangledAttentionGradArgs& args,
                                     const TensorView& workspace);

}  // namespace gradmill
