// SPDX-License-Identifier: Apache-2.0
// Initial values of parameters: normally or uniformly distributed, as a function of the seed, the parameter and the
// element; or a constant.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

// `to` must be contiguous. Devices agree up to the rounding of their logarithm and cosine.
struct InitArgs {
  TensorView to;
  float mean = 0, std = 0;  // std 0: every element is `mean`
  bool uniform = false;     // uniform from mean - std to mean + std instead
  uint64_t seed = 0;
  uint32_t param = 0;
};
void init_values(ExecContext& ctx, const InitArgs& args);

template <Device D, class T>
void init_values(ExecContext& ctx, const InitArgs& args);

}  // namespace gradmill
