// SPDX-License-Identifier: Apache-2.0
// A product and the activation around it: the middle of an MLP in either direction. On Hopper kernels of our own do
// both. Elsewhere a GPU's library may, for the tanh GELU: it takes that of the product before it is rounded, so x alone
// does not give y again bit for bit. And else, or where that would not be faster, the ops matmul and activation do it.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"
#include "ops/activation.h"

namespace gradmill {

struct MatmulActivationArgs {
  Activation kind = Activation::gelu_tanh;
  TensorView a;        // (N, K)
  TensorView b;        // (F, K); of gated kinds (2F, K), gate and up
  TensorView bias;     // (F or 2F), or undefined
  TensorView x;        // (N, F or 2F) out: a · bᵀ + bias
  TensorView y;        // (N, F) out: the activation of x
  bool exact = false;  // y is that of x as stored: the backward will make it again
};
void matmul_activation(ExecContext& ctx, const MatmulActivationArgs& args);

struct MatmulActivationGradArgs {
  Activation kind = Activation::gelu_tanh;
  TensorView a;         // (N, K)
  TensorView b;         // (K, F)
  TensorView x;         // (N, F or 2F) as the forward wrote it
  TensorView dx;        // like x, out: its gradient if that of y is a · b; of gated kinds, or if
                        // matmul_activation_backward_can_overwrite, it may be x
  TensorView y;         // (N, F) out: the activation of x again, or undefined
  TensorView dbias;     // (F or 2F) fp32: the column sums of dx as it is stored, or undefined
  float bias_beta = 0;  // dbias = new + beta * old
};
void matmul_activation_backward(ExecContext& ctx, const MatmulActivationGradArgs& args);
// Not on paper: a plan has room for dx beside x.
bool matmul_activation_backward_can_overwrite(ExecContext& ctx, const MatmulActivationGradArgs& args);

// CUDA only, for the tanh GELU by the library: whether one product, and then the sums, is the faster way. `partials`
// (chunks, F) as bias_grad wants them, or undefined without dbias.
template <Device D, class T>
bool prefers_matmul_gelu(ExecContext& ctx, const MatmulActivationArgs& args);
template <Device D, class T>
bool prefers_matmul_gelu_backward(ExecContext& ctx, const MatmulActivationGradArgs& args, const TensorView& partials);
// In one product, all but dbias.
template <Device D>
void matmul_gelu(ExecContext& ctx, const MatmulActivationArgs& args);
template <Device D>
void matmul_gelu_backward(ExecContext& ctx, const MatmulActivationGradArgs& args);

}  // namespace gradmill
