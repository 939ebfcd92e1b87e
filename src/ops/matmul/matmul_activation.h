// SPDX-License-Identifier: Apache-2.0
// A GEMM and the activation next to it: the middle of an MLP in either direction. On Hopper, our own kernels fuse the
// two. On other GPUs the library may fuse them for the tanh GELU; it applies the GELU before rounding, so y cannot be
// recomputed from x bit for bit. Otherwise, or if fusing is not faster, the ops matmul and activation are used.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"
#include "ops/activation.h"
#include "ops/matmul/product.h"

namespace gradmill {

struct MatmulActivationArgs {
  Activation kind = Activation::gelu_tanh;
  Product product;     // computes x; undefined: x is there already, and only the activation is left to compute
  TensorView x;        // (N, F), for gated kinds (N, 2F) with gate and up: the product's c
  Operand y;           // (N, F) out: the activation of x
  bool exact = false;  // y must be the activation of the rounded x, because the backward will recompute it
};
void matmul_activation(ExecContext& ctx, const MatmulActivationArgs& args);

struct MatmulActivationGradArgs {
  Activation kind = Activation::gelu_tanh;
  Product product;   // a (N, K) · b (K, F), the gradient of y; without c
  TensorView x;      // (N, F or 2F) as written by the forward
  Operand dx;        // like x, out: its gradient; for gated kinds, or if matmul_activation_backward_can_overwrite, it
                     // may be x
  Operand y;         // (N, F) out: the activation of x again, or undefined
  TensorView dbias;  // (F or 2F) fp32: the column sums of dx as it is stored, or undefined
  float bias_beta = 0;  // dbias = new + beta * old
};
void matmul_activation_backward(ExecContext& ctx, const MatmulActivationGradArgs& args);
// Always false in a dry run: the plan has space for both dx and x.
bool matmul_activation_backward_can_overwrite(ExecContext& ctx, const MatmulActivationGradArgs& args);

// CUDA only, for the tanh GELU by the library: whether one fused GEMM followed by the sums is faster. `partials`
// (chunks, F) is scratch for bias_grad; undefined without dbias.
template <Device D, class T>
bool prefers_matmul_gelu(ExecContext& ctx, const MatmulActivationArgs& args);
template <Device D, class T>
bool prefers_matmul_gelu_backward(ExecContext& ctx, const MatmulActivationGradArgs& args, const TensorView& partials);
// Computes everything except dbias in one GEMM.
template <Device D>
void matmul_gelu(ExecContext& ctx, const MatmulActivationArgs& args);
template <Device D>
void matmul_gelu_backward(ExecContext& ctx, const MatmulActivationGradArgs& args);

}  // namespace gradmill
