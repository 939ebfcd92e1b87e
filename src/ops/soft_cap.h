// SPDX-License-Identifier: Apache-2.0
// y = cap * tanh(x / cap): logits that stay below a limit; with a cap of 1, tanh itself.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct SoftCapArgs {
  TensorView x;  // (N, C), rows may be strided
  TensorView y;  // (N, C) out; may be x
  float cap = 1;
};
void soft_cap_forward(ExecContext& ctx, const SoftCapArgs& args);

struct SoftCapGradArgs {
  TensorView x;   // (N, C) as the forward read it
  TensorView dy;  // (N, C)
  TensorView dx;  // (N, C) out; may be either of them
  float cap = 1;
};
void soft_cap_backward(ExecContext& ctx, const SoftCapGradArgs& args);

template <Device D, class T>
void soft_cap_forward(ExecContext& ctx, const SoftCapArgs& args);
template <Device D, class T>
void soft_cap_backward(ExecContext& ctx, const SoftCapGradArgs& args);

}  // namespace gradmill
