// SPDX-License-Identifier: Apache-2.0
// Attention on Hopper for heads of 64: sequences of equal length, causal or full masks, grouped queries. Deterministic.
#pragma once

#include "ops/attention/attention.h"

namespace gradmill {

// For both directions.
bool hopper_supports(const ExecContext& ctx, const AttentionArgs& args);

template <class T>
void hopper_forward(ExecContext& ctx, const AttentionArgs& args);

// Number of fp32 elements of scratch that hopper_backward needs.
int64_t hopper_backward_scratch(const AttentionGradArgs& args);

// The first part of hopper_backward: dq, and the `stats` of all rows for the second part (size:
// hopper_backward_scratch).
template <class T>
void hopper_query_gradients(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& stats);

template <class T>
void hopper_backward(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& scratch);

}  // namespace gradmill
