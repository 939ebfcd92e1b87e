// SPDX-License-Identifier: Apache-2.0
// The sum of a value a row for each sequence of a batch: of losses, the log-probability of its targets.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct SequenceSumsArgs {
  TensorView values;  // (N) fp32
  TensorView cu;      // (S + 1) int32, ascending: sequence s has rows cu[s] .. cu[s + 1) of values
  TensorView sums;    // (S) fp32 out, added in double in an order that depends on a sequence's length alone; empty: 0
};
void sequence_sums(ExecContext& ctx, const SequenceSumsArgs& args);

template <Device D, class T>
void sequence_sums(ExecContext& ctx, const SequenceSumsArgs& args);

}  // namespace gradmill
