// SPDX-License-Identifier: Apache-2.0
// Averaged weights: ema = decay * ema + (1 - decay) * weights over the flat space, unless the step was not finite. Also
// exchanges two flat buffers, to evaluate with the averages and then continue with the weights.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct EmaArgs {
  TensorView average;  // (P) fp32, in and out
  TensorView weights;  // (P) fp32
  float decay = 0.999f;
};
void ema_update(ExecContext& ctx, const EmaArgs& args);

// Exchanges the values of a and b, (P) fp32 each.
void exchange(ExecContext& ctx, const TensorView& a, const TensorView& b);

template <Device D, class T>
void ema_update(ExecContext& ctx, const EmaArgs& args);
template <Device D, class T>
void exchange(ExecContext& ctx, const TensorView& a, const TensorView& b);

}  // namespace gradmill
