// SPDX-License-Identifier: Apache-2.0
// Rotary positions (half rotation: element j is paired with j + D/2), with an optional RMSNorm of each head before
// (QK-norm). Works on the q and k columns of the packed projection: (H + Hkv) heads of size D.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct RopeArgs {
  TensorView in;                  // (N, (H + Hkv) * D) q heads, then k heads; rows may be strided
  TensorView out;                 // same shape; may be `in` only without QK-norm
  TensorView positions;           // (N) int32
  TensorView cos_sin;             // (P, D) fp32: cosines in the first half of a row, sines in the second
  TensorView q_weight, k_weight;  // (D) QK-norm, or undefined
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  float eps = 1e-6f;
  float weight_offset = 0;
};
void rope_forward(ExecContext& ctx, const RopeArgs& args);

struct RopeGradArgs {
  RopeArgs forward;                 // `in` as before the forward (read only with QK-norm); `out` is ignored
  TensorView dout;                  // (N, (H + Hkv) * D); rows may be strided
  TensorView din;                   // out; may be dout or forward.in
  TensorView dq_weight, dk_weight;  // (D) fp32, or undefined
  float q_beta = 0, k_beta = 0;     // dweight = new + beta * old
};
void rope_backward(ExecContext& ctx, const RopeGradArgs& args);

template <Device D, class T>
void rope_forward(ExecContext& ctx, const RopeArgs& args);
// `partials` (2, chunks, D) fp32 receives the part of dq_weight and dk_weight of each chunk of rows (on a GPU: of each
// block); undefined without QK-norm.
template <Device D, class T>
void rope_backward(ExecContext& ctx, const RopeGradArgs& args, const TensorView& partials);

}  // namespace gradmill
