// SPDX-License-Identifier: Apache-2.0
// MLP activations. Plain activations map (N, F) to (N, F). Gated ones read gate and up side by side, (N, 2F), and
// return act(gate) * up, (N, F).
#pragma once

#include "core/exec_context.h"
#include "core/operand.h"
#include "core/run_op.h"

namespace gradmill {

enum class Activation : uint8_t { gelu_erf, gelu_tanh, swiglu, geglu_erf, geglu_tanh };

inline bool is_gated(Activation kind) { return kind >= Activation::swiglu; }

struct ActivationArgs {
  Activation kind = Activation::gelu_tanh;
  TensorView x;  // (N, F) or (N, 2F)
  Operand y;     // (N, F) out
};
void activation_forward(ExecContext& ctx, const ActivationArgs& args);

struct ActivationGradArgs {
  Activation kind = Activation::gelu_tanh;
  TensorView x;         // the input of the forward
  TensorView dy;        // (N, F)
  Operand dx;           // like x, out; may be x or, for plain activations, dy
  Operand y;            // (N, F) out: recomputes the forward's output with the same bits; or undefined
  TensorView dbias;     // (columns of dx) fp32: the column sums of dx as stored; or undefined
  float bias_beta = 0;  // dbias = new + beta * old
};
void activation_backward(ExecContext& ctx, const ActivationGradArgs& args);

template <Device D, class T>
void activation_forward(ExecContext& ctx, const ActivationArgs& args);
// `partials` (chunks, F) fp32 receives the part of dbias of each chunk of rows. If it is undefined, dbias is computed
// elsewhere. This is always so on the CPU, which also computes y elsewhere.
template <Device D, class T>
void activation_backward(ExecContext& ctx, const ActivationGradArgs& args, const TensorView& partials);

}  // namespace gradmill
