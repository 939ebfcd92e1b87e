// SPDX-License-Identifier: Apache-2.0
// Products with a GELU on Hopper, for models up to 384 wide: a block's share of the weight stays in shared memory. Here
// y is the GELU of x as it is stored, so that x gives it again. Deterministic.
#pragma once

#include "ops/matmul_gelu.h"

namespace gradmill {

bool hopper_supports(const ExecContext& ctx, const MatmulGeluArgs& args);
bool hopper_supports(const ExecContext& ctx, const MatmulGeluGradArgs& args);

template <class T>
void hopper_matmul_gelu(ExecContext& ctx, const MatmulGeluArgs& args);
// All but dbias.
template <class T>
void hopper_matmul_gelu_backward(ExecContext& ctx, const MatmulGeluGradArgs& args);

}  // namespace gradmill
