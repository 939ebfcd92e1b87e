// SPDX-License-Identifier: Apache-2.0
// Matrix product: c = op(a) · op(b) + beta · c (+ bias to every row). a and b share a dtype; c has it too, or is fp32
// (weight gradients). Accumulation is fp32.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct MatmulArgs {
  TensorView a;  // (m, k), or (k, m) when transposed
  TensorView b;  // (k, n), or (n, k) when transposed
  TensorView c;  // (m, n)
  bool transpose_a = false, transpose_b = false;
  float beta = 0;   // 0: c is not read
  TensorView bias;  // (n) in a's dtype, or undefined
};
void matmul(ExecContext& ctx, const MatmulArgs& args);

}  // namespace gradmill
