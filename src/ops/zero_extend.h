// SPDX-License-Identifier: Apache-2.0
// Copies a tensor and writes zeros behind it: a weight with rows of zeros, up to a size that products like.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct ZeroExtendArgs {
  TensorView from;  // contiguous
  TensorView to;    // contiguous, at least as many elements, not overlapping from
};
void zero_extend(ExecContext& ctx, const ZeroExtendArgs& args);

template <Device D, class T>
void zero_extend(ExecContext& ctx, const ZeroExtendArgs& args);

}  // namespace gradmill
