// SPDX-License-Identifier: Apache-2.0
// Attention's backward on Hopper for heads of 64: sequences of equal length, causal or not, grouped queries.
// Deterministic.
#pragma once

#include "ops/attention.h"

namespace gradmill {

// Whether hopper_backward takes this; what the forward was made by does not matter.
bool hopper_supports(const ExecContext& ctx, const AttentionArgs& args);

// fp32 elements that hopper_backward needs.
int64_t hopper_backward_scratch(const AttentionGradArgs& args);

// Where args.forward.lse has the value of a sequence's head and row.
struct LseOrder {
  int64_t seq_stride, head_stride;
};

template <class T>
void hopper_backward(ExecContext& ctx, const AttentionGradArgs& args, const LseOrder& lse, const TensorView& scratch);

}  // namespace gradmill
