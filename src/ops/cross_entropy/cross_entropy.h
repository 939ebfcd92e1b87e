// SPDX-License-Identifier: Apache-2.0
// Cross-entropy of rows of logits. The gradient replaces the logits, so that the largest tensor of the step is read
// once and written once.
#pragma once

#include "core/exec_context.h"
#include "core/ignored_target.h"
#include "core/run_op.h"

namespace gradmill {

struct CrossEntropyArgs {
  TensorView logits;        // (n, V); becomes d loss / d logits when `write_grad`
  TensorView targets;       // (n) int32; kIgnoredTarget: no loss, a zero gradient
  TensorView weights = {};  // (n) fp32 factors of losses and gradients, or undefined: 1. A row of 0 is an ignored one
  TensorView losses;        // (n) fp32 out; 0 where ignored
  bool write_grad = true;   // scaled by scalars->inv_targets * scalars->loss_scale
};
void cross_entropy(ExecContext& ctx, const CrossEntropyArgs& args);

// scalars->loss_sum += the sum of losses, in double and in row order.
void add_loss_sum(ExecContext& ctx, const TensorView& losses);

template <Device D, class T>
void cross_entropy(ExecContext& ctx, const CrossEntropyArgs& args);
template <Device D, class T>
void add_loss_sum(ExecContext& ctx, const TensorView& losses);

}  // namespace gradmill
