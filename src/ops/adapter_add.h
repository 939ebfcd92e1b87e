// SPDX-License-Identifier: Apache-2.0
// Adds a low-rank adapter to the output of a linear layer: y = gain ⊙ (y + scale · h Bᵀ) + bias, in place.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct AdapterAddArgs {
  TensorView y;     // (N, C): in x Wᵀ, out the layer's output; rows may be strided, also those of h and kept
  TensorView h;     // (N, r): x Aᵀ
  TensorView b;     // (C, r)
  float scale = 1;  // the adapter's scale
  TensorView gain;  // (C) fp32 (DoRA), or undefined, which means 1
  TensorView bias;  // (C) in y's dtype, or undefined
  TensorView kept;  // (N, C) out: a copy of y for a backward that needs it, or undefined
};
void adapter_add(ExecContext& ctx, const AdapterAddArgs& args);

// Up to this rank the op is one pass over y. Otherwise it is a GEMM and a pass over its result.
inline constexpr int64_t kMostFusedRank = 128;
template <Device D, class T>
void adapter_add(ExecContext& ctx, const AdapterAddArgs& args);

}  // namespace gradmill
