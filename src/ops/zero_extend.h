// SPDX-License-Identifier: Apache-2.0
// Copies a tensor and writes zeros after it. Used to pad a weight with rows of zeros to a size that suits GEMMs.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct ZeroExtendArgs {
  TensorView from;  // must be contiguous
  TensorView to;    // contiguous, with at least as many elements; must not overlap `from`
};
void zero_extend(ExecContext& ctx, const ZeroExtendArgs& args);

template <Device D, class T>
void zero_extend(ExecContext& ctx, const ZeroExtendArgs& args);

}  // namespace gradmill
