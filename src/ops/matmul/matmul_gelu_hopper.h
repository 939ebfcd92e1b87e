// SPDX-License-Identifier: Apache-2.0
// GEMMs with a tanh GELU on Hopper, for models up to 384 wide: a block's share of the weight stays in shared memory.
// Here y is the GELU of the rounded x, so that it can be recomputed from x. Deterministic.
#pragma once

#include "ops/matmul/matmul_activation.h"

namespace gradmill {

bool hopper_supports(const ExecContext& ctx, const MatmulActivationArgs& args);
bool hopper_supports(const ExecContext& ctx, const MatmulActivationGradArgs& args);

template <class T>
void hopper_matmul_gelu(ExecContext& ctx, const MatmulActivationArgs& args);
// Computes everything except dbias.
template <class T>
void hopper_matmul_gelu_backward(ExecContext& ctx, const MatmulActivationGradArgs& args);

}  // namespace gradmill
