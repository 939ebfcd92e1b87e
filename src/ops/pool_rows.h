// SPDX-License-Identifier: Apache-2.0
// Pools each sequence of a batch to one row: its first row, its last, or the mean of all.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

enum class Pooling : uint8_t { first, last, mean };

struct PoolRowsArgs {
  Pooling kind = Pooling::first;
  TensorView x;   // (N, C)
  TensorView cu;  // (S + 1) int32, ascending: sequence s has rows cu[s] .. cu[s + 1) of x
  TensorView y;   // (S, C) out; 0 for an empty sequence
};
void pool_rows_forward(ExecContext& ctx, const PoolRowsArgs& args);

struct PoolRowsGradArgs {
  Pooling kind = Pooling::first;
  TensorView cu;  // (S + 1) int32
  TensorView dy;  // (S, C)
  TensorView dx;  // (N, C) out, all rows: 0 in rows that are not pooled
};
void pool_rows_backward(ExecContext& ctx, const PoolRowsGradArgs& args);

template <Device D, class T>
void pool_rows_forward(ExecContext& ctx, const PoolRowsArgs& args);
template <Device D, class T>
void pool_rows_backward(ExecContext& ctx, const PoolRowsGradArgs& args);

}  // namespace gradmill
