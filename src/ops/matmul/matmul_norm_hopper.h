// SPDX-License-Identifier: Apache-2.0
// A norm fused with the GEMM that computes its delta, on Hopper. For models 384 or 256 wide, a block has whole rows of
// the product, which then need not go through memory. Deterministic.
#pragma once

#include "ops/norm/norm.h"

namespace gradmill {

// Whether args.product can be fused.
bool hopper_supports(const ExecContext& ctx, const NormArgs& args);
template <class T>
void hopper_matmul_norm(ExecContext& ctx, const NormArgs& args);

}  // namespace gradmill
