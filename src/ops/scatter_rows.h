// SPDX-License-Identifier: Apache-2.0
// Copies rows to the positions given by an index, such as new keys and values to a cache.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct ScatterRowsArgs {
  TensorView from;     // (N, C), rows may be strided
  TensorView indices;  // (N) int32, distinct, in [0, P)
  TensorView to;       // (P, C) row indices[n] = row n of from; other rows are unchanged. Rows may be strided
};
void scatter_rows(ExecContext& ctx, const ScatterRowsArgs& args);

template <Device D, class T>
void scatter_rows(ExecContext& ctx, const ScatterRowsArgs& args);

}  // namespace gradmill
