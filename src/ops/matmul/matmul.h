// SPDX-License-Identifier: Apache-2.0
// GEMM: c = alpha · op(a) · op(b) + beta · c (+ bias in every row). a and b have the same dtype; c has it too, or is
// fp32 (for weight gradients). Accumulates in fp32.
#pragma once

#include "core/batch_steps.h"
#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct MatmulArgs {
  TensorView a;  // (m, k), or (k, m) when transposed
  TensorView b;  // (k, n), or (n, k) when transposed
  TensorView c;  // (m, n)
  bool transpose_a = false, transpose_b = false;
  float alpha = 1;
  float beta = 0;   // 0: c is not read
  TensorView bias;  // (n) in a's dtype, or undefined
  BatchSteps batch;
};
void matmul(ExecContext& ctx, const MatmulArgs& args);

// The name of a GEMM in profiles: `op`, or "matmul 4096x768x16384 tn" if shapes are distinguished: m, n, k, and which
// operands are transposed.
std::string product_name(const ExecContext& ctx, std::string_view op, const MatmulArgs& args);

// The implementation with one device's library. CPU: fp32 throughout. CUDA: the bias has c's dtype.
template <Device D>
void matmul(ExecContext& ctx, const MatmulArgs& args);
template <>
void matmul<Device::cpu>(ExecContext& ctx, const MatmulArgs& args);
template <>
void matmul<Device::cuda>(ExecContext& ctx, const MatmulArgs& args);

}  // namespace gradmill
