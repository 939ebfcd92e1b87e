// SPDX-License-Identifier: Apache-2.0
// Matrix product: c = alpha · op(a) · op(b) + beta · c (+ bias to every row). a and b share a dtype; c has it too,
// or is fp32 (weight gradients). Accumulation is fp32.
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

// How profiles call a product: `op`, or "matmul 4096x768x16384 tn" where shapes are told apart: m, n, k, and which
// operands are transposed.
std::string product_name(const ExecContext& ctx, std::string_view op, const MatmulArgs& args);

// What one device's library does. cpu: fp32 throughout. cuda: the bias has c's dtype.
template <Device D>
void matmul(ExecContext& ctx, const MatmulArgs& args);
template <>
void matmul<Device::cpu>(ExecContext& ctx, const MatmulArgs& args);
template <>
void matmul<Device::cuda>(ExecContext& ctx, const MatmulArgs& args);

}  // namespace gradmill
