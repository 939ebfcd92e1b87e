// SPDX-License-Identifier: Apache-2.0
// Column-wise scale and shift in fp32, rounded once: y = gain ⊙ (x + addend) + bias.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct ScaleColumnsArgs {
  TensorView x;       // (N, C), rows may be strided in all tensors
  TensorView addend;  // (N, C) fp32, or undefined
  TensorView gain;    // (C) fp32, or undefined, which means 1
  TensorView bias;    // (C) in x's dtype, or undefined
  TensorView y;       // (N, C) out; may be x
  TensorView copy;    // (N, C) out: a copy of y, or undefined
};
void scale_columns(ExecContext& ctx, const ScaleColumnsArgs& args);

template <Device D, class T>
void scale_columns(ExecContext& ctx, const ScaleColumnsArgs& args);

}  // namespace gradmill
