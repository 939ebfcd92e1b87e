// SPDX-License-Identifier: Apache-2.0
// Converts between fp32, bf16 and fp16, rounding to nearest even: to = from + beta * to.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct ConvertArgs {
  TensorView from;  // (R, C), rows may be strided
  TensorView to;    // (R, C), rows may be strided
  float beta = 0;
};
void convert(ExecContext& ctx, const ConvertArgs& args);

// T is the element type of the side that is not fp32 (float if both are fp32).
template <Device D, class T>
void convert(ExecContext& ctx, const ConvertArgs& args);

}  // namespace gradmill
