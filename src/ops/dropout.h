// SPDX-License-Identifier: Apache-2.0
// Dropout by counter: y = x * keep / (1 - p) (+ y), p in steps of 2^-16, keep a function of (seed, site, step, token,
// column): see core/rng.h. Its gradient is the same op on dy.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct DropoutArgs {
  TensorView x;  // (N, C)
  TensorView y;  // (N, C) out; may be x
  uint32_t site = 0;
  TensorView tokens;  // (N) int32, or undefined: which row of the micro-batch each row is of, where that is not itself
  float probability = -1;  // negative: scalars->dropout, which may change from step to step
  bool add = false;        // to what y was; then y is not x
};
void dropout(ExecContext& ctx, const DropoutArgs& args);

template <Device D, class T>
void dropout(ExecContext& ctx, const DropoutArgs& args);

}  // namespace gradmill
