// SPDX-License-Identifier: Apache-2.0
// Backward of y = gain ⊙ z + bias, where gain = magnitude / norm and the norm is a constant: dz = gain ⊙ dy, and
// dmagnitude is the column sums of dy ⊙ z / norm. z is not saved: z / norm = (y - bias) / magnitude.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"
#include "ops/row_chunks.h"

namespace gradmill {

struct DoraGradArgs {
  TensorView y;           // (N, C), rows may be strided, also those of dy and dz
  TensorView dy;          // (N, C)
  TensorView gain;        // (C) fp32
  TensorView magnitude;   // (C) fp32; where it is 0, dmagnitude receives 0
  TensorView bias;        // (C) in y's dtype, or undefined
  TensorView dz;          // (N, C) out; may be y or dy
  TensorView dmagnitude;  // (C) fp32
  float beta = 0;         // dmagnitude = new + beta * old
};
void dora_backward(ExecContext& ctx, const DoraGradArgs& args);

// `partials` (chunks, C) fp32.
template <Device D, class T>
void dora_backward(ExecContext& ctx, const DoraGradArgs& args, const TensorView& partials);

}  // namespace gradmill
