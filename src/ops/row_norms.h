// SPDX-License-Identifier: Apache-2.0
// Squared norms of rows: squares (R) fp32 = sum of x² over the columns of x (R, C).
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct RowNormsArgs {
  TensorView x;        // (R, C), rows may be strided
  TensorView squares;  // (R) fp32 out
};
void row_norms(ExecContext& ctx, const RowNormsArgs& args);

template <Device D, class T>
void row_norms(ExecContext& ctx, const RowNormsArgs& args);

}  // namespace gradmill
