// SPDX-License-Identifier: Apache-2.0
// A product and the tanh GELU around it: the middle of an MLP in either direction. On Hopper a kernel of our own does
// both for narrow models. Elsewhere a GPU's library may: it takes the GELU of the product before that is rounded, so x
// alone does not give y again bit for bit. And else, or where that would not be faster, the ops matmul and activation
// do it.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct MatmulGeluArgs {
  TensorView a;        // (N, K)
  TensorView b;        // (F, K)
  TensorView bias;     // (F), or undefined
  TensorView x;        // (N, F) out: a · bᵀ + bias
  TensorView y;        // (N, F) out: gelu(x)
  bool exact = false;  // y is the GELU of x as stored: the backward will make it again
};
void matmul_gelu(ExecContext& ctx, const MatmulGeluArgs& args);

struct MatmulGeluGradArgs {
  TensorView a;         // (N, K)
  TensorView b;         // (K, F)
  TensorView x;         // (N, F) as the forward wrote it
  TensorView dx;        // (N, F) out: (a · b) ∘ gelu'(x); may be x if matmul_gelu_backward_can_overwrite
  TensorView y;         // (N, F) out: gelu(x) again, or undefined
  TensorView dbias;     // (F) fp32: the column sums of dx as it is stored, or undefined
  float bias_beta = 0;  // dbias = new + beta * old
};
void matmul_gelu_backward(ExecContext& ctx, const MatmulGeluGradArgs& args);
// Not on paper: a plan has room for dx beside x.
bool matmul_gelu_backward_can_overwrite(ExecContext& ctx, const MatmulGeluGradArgs& args);

// CUDA only: whether one product, and then the sums, is the faster way. `partials` (chunks, F) as bias_grad wants them,
// or undefined without dbias.
template <Device D, class T>
bool prefers_matmul_gelu(ExecContext& ctx, const MatmulGeluArgs& args);
template <Device D, class T>
bool prefers_matmul_gelu_backward(ExecContext& ctx, const MatmulGeluGradArgs& args, const TensorView& partials);
// In one product, all but dbias.
template <Device D>
void matmul_gelu(ExecContext& ctx, const MatmulGeluArgs& args);
template <Device D>
void matmul_gelu_backward(ExecContext& ctx, const MatmulGeluGradArgs& args);

}  // namespace gradmill
