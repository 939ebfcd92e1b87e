// SPDX-License-Identifier: Apache-2.0
// Our own flash attention for CUDA: heads up to 256 wide, any mask, dropout, ragged sequences. Deterministic.
#pragma once

#include "ops/attention/attention.h"

namespace gradmill {

// Number of fp32 elements of scratch that flash_backward needs.
int64_t flash_backward_scratch(const AttentionGradArgs& args);

// See attention_forward and attention_backward. Asynchronous; T is float, Bf16 or Fp16.
template <class T>
void flash_forward(ExecContext& ctx, const AttentionArgs& args);
template <class T>
void flash_backward(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& scratch);

// Whether dq, dk and dv may overwrite q, k and v.
bool flash_backward_can_overwrite(ExecContext& ctx, const AttentionGradArgs& args);

}  // namespace gradmill
