// SPDX-License-Identifier: Apache-2.0
// The loss of a classifier, with one row of logits per sequence: cross-entropy with a factor per class, or the squared
// error if there is a single label. The gradient replaces the logits.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct LabelLossArgs {
  TensorView logits;         // (S, L) fp32, rows may be strided; becomes d loss / d logits when `write_grad`
  TensorView targets;        // (S) int32 classes, kIgnoredTarget: no loss, zero gradient; with L = 1, (S) fp32 values
  TensorView cu;             // (S + 1) int32: if cu[s] == cu[s + 1], sequence s is empty and has no loss
  TensorView class_weights;  // (L) fp32, or undefined, which means 1. Not for L = 1
  TensorView losses;         // (S) fp32 out
  bool write_grad = true;    // scaled by scalars->inv_targets * scalars->loss_scale
};
void label_loss(ExecContext& ctx, const LabelLossArgs& args);

template <Device D, class T>
void label_loss(ExecContext& ctx, const LabelLossArgs& args);

}  // namespace gradmill
