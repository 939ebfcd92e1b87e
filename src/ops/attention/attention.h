// SPDX-License-Identifier: Apache-2.0
// Attention over the sequences of a SeqLayout: out = softmax(scale * q·kᵀ, masked) · v. Query head h reads key head h /
// (H / Hkv). Tiled: no T×T matrix is stored, in the forward or the backward.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"
#include "core/seq_layout.h"

namespace gradmill {

// Key k is visible to query q iff q - left <= k <= q + right, with positions within the sequence; queries are the last
// rows of the keys. A negative value means no limit. Causal is {-1, 0}; causal with a window of W keys is {W - 1, 0}.
struct AttentionMask {
  int64_t left = -1;
  int64_t right = -1;
};

struct AttentionArgs {
  TensorView q;    // (N, H * D)   rows may be strided (columns of a packed projection)
  TensorView k;    // (M, Hkv * D)
  TensorView v;    // (M, Hkv * D)
  TensorView out;  // (N, H * D)   padding rows become 0
  // (H, N) fp32 out: natural log of the softmax denominator; 0 in padding rows. Only the backward of the same op may
  // read it, because cuDNN stores its own statistics here, in its own order.
  TensorView lse;
  SeqLayout seq;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1;
  AttentionMask mask;
  // If `dropout`, drops attention weights with probability scalars->dropout. The coordinates are (site, step, query
  // token in the effective batch, head * dropout_columns(seq) + key position in its sequence).
  bool dropout = false;
  uint32_t dropout_site = 0;
};
void attention_forward(ExecContext& ctx, const AttentionArgs& args);

// Columns of a head's dropout mask, rounded up to eight, because eight columns share a random block and heads must not.
inline int64_t dropout_columns(const SeqLayout& seq) { return (seq.max_len + 7) / 8 * 8; }

struct AttentionGradArgs {
  AttentionArgs forward;  // with out and lse from the forward
  TensorView dout;        // (N, H * D)
  TensorView dq, dk, dv;  // like q, k, v; written completely (padding rows are 0); rows may be strided
};
void attention_backward(ExecContext& ctx, const AttentionGradArgs& args);
// Which inputs the gradients may overwrite: none, v (with dv), or q, k and v (with dq, dk and dv). A dry run answers
// none: the plan has space for both.
enum class AttentionOverwrites : uint8_t { nothing, values, everything };
AttentionOverwrites attention_backward_overwrites(ExecContext& ctx, const AttentionGradArgs& args);

// `workspace`: on a GPU, as many bytes as attention_workspace() of ops/attention/attention_cuda.h returns. On a CPU
// undefined, except for the backward if T is narrower than fp32: then it is the accumulator (2, M, Hkv * D) fp32 of dk
// and dv.
template <Device D, class T>
void attention_forward(ExecContext& ctx, const AttentionArgs& args, const TensorView& workspace);
template <Device D, class T>
void attention_backward(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& workspace);

}  // namespace gradmill
