// SPDX-License-Identifier: Apache-2.0
// A low-rank adapter joins a linear layer's output: y = gain ⊙ (y + scale · h Bᵀ) + bias, in place.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct AdapterAddArgs {
  TensorView y;     // (N, C): in x Wᵀ, out the layer's output; rows may be strided, as of h and kept
  TensorView h;     // (N, r): x Aᵀ
  TensorView b;     // (C, r)
  float scale = 1;  // of the adapter
  TensorView gain;  // (C) fp32 (DoRA), or undefined: 1
  TensorView bias;  // (C) in y's dtype, or undefined
  TensorView kept;  // (N, C) out: y again, for a backward that wants it, or undefined
};
void adapter_add(ExecContext& ctx, const AdapterAddArgs& args);

// In one pass over y, for ranks up to kMostFusedRank. Elsewhere the op is a product and a pass over its result.
inline constexpr int64_t kMostFusedRank = 128;
template <Device D, class T>
void adapter_add(ExecContext& ctx, const AdapterAddArgs& args);

}  // namespace gradmill
