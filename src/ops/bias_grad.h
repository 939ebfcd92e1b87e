// SPDX-License-Identifier: Apache-2.0
// The gradient of a bias: the column sums of dy. Rows are summed in chunks whose size depends on the shape alone.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"
#include "ops/row_chunks.h"

namespace gradmill {

struct BiasGradArgs {
  TensorView dy;     // (N, C), rows may be strided
  TensorView dbias;  // (C) fp32
  float beta = 0;    // dbias = new + beta * old
};
void bias_grad(ExecContext& ctx, const BiasGradArgs& args);

// How the rows are divided. A kernel that computes dy can also sum these chunks: ops/bias_grad_sums.cuh.
RowChunks bias_grad_chunks(const DeviceSpec& device, const TensorView& dy);

// `partials` (chunks, C) fp32.
template <Device D, class T>
void bias_grad(ExecContext& ctx, const BiasGradArgs& args, const TensorView& partials);

}  // namespace gradmill
