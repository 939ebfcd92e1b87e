// SPDX-License-Identifier: Apache-2.0
// y = cap * tanh(x / cap): limits logits smoothly. With a cap of 1 it is tanh.
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
  TensorView x;   // (N, C) the input of the forward
  TensorView dy;  // (N, C)
  TensorView dx;  // (N, C) out; may be x or dy
  float cap = 1;
};
void soft_cap_backward(ExecContext& ctx, const SoftCapGradArgs& args);

template <Device D, class T>
void soft_cap_forward(ExecContext& ctx, const SoftCapArgs& args);
template <Device D, class T>
void soft_cap_backward(ExecContext& ctx, const SoftCapGradArgs& args);

}  // namespace gradmill
