// SPDX-License-Identifier: Apache-2.0
// Counter-based dropout: y = x * keep / (1 - p) (+ y). p is a multiple of 2^-16, and keep a function of (seed, site,
// step, token, column): see core/rng.h. Its gradient is the same op on dy.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct DropoutArgs {
  TensorView x;  // (N, C)
  TensorView y;  // (N, C) out; may be x
  uint32_t site = 0;
  TensorView tokens;  // (N) int32: the row of the micro-batch that each row belongs to; undefined: row n belongs to row
                      // n
  float probability = -1;  // negative: scalars->dropout, which may change between steps
  bool add = false;        // adds to y; then y must not be x
};
void dropout(ExecContext& ctx, const DropoutArgs& args);

template <Device D, class T>
void dropout(ExecContext& ctx, const DropoutArgs& args);

}  // namespace gradmill
