// SPDX-License-Identifier: Apache-2.0
// Finds where a tensor stops being finite. Used for the report after a bad step, not in the step itself.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

// `row` (1) int32 receives the first row of x (N, C) that contains NaN or infinity, or -1.
void find_non_finite(ExecContext& ctx, const TensorView& x, const TensorView& row);

template <Device D, class T>
void find_non_finite(ExecContext& ctx, const TensorView& x, const TensorView& row);

}  // namespace gradmill
