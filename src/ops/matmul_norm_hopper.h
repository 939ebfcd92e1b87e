// SPDX-License-Identifier: Apache-2.0
// Products whose result goes straight into a norm, forward or backward, on Hopper: for models 384 or 256 wide a block
// has whole rows of the product, which then need not go through memory. Deterministic.
#pragma once

#include "ops/matmul.h"
#include "ops/norm.h"

namespace gradmill {

// Whether the norm can make its delta, or dy, itself: the product's c.
bool hopper_supports(const ExecContext& ctx, const MatmulArgs& product, const NormArgs& args);
bool hopper_supports(const ExecContext& ctx, const MatmulArgs& product, const NormGradArgs& args);

template <class T>
void hopper_matmul_norm(ExecContext& ctx, const MatmulArgs& product, const NormArgs& args);
// `partials` (chunks, C) as norm_backward has them. Returns those of them that hold a part of dweight.
template <class T>
TensorView hopper_matmul_norm_backward(ExecContext& ctx, const MatmulArgs& product, const NormGradArgs& args,
                                       const TensorView& partials);

}  // namespace gradmill
