// SPDX-License-Identifier: Apache-2.0
// GEMMs with an activation on Hopper, for hidden layers that are a multiple of 256: while one tile is multiplied, other
// warps apply the activation to the previous one. As with two separate ops, y is the activation of the rounded x, and
// dx is computed from the rounded product. Deterministic.
#pragma once

#include "ops/matmul/matmul_activation.h"

namespace gradmill {

bool wide_hopper_supports(const ExecContext& ctx, const MatmulActivationArgs& args);
bool wide_hopper_supports(const ExecContext& ctx, const MatmulActivationGradArgs& args);

template <class T>
void wide_hopper_matmul_activation(ExecContext& ctx, const MatmulActivationArgs& args);
// Computes everything except dbias. dx may be x.
template <class T>
void wide_hopper_matmul_activation_backward(ExecContext& ctx, const MatmulActivationGradArgs& args);

}  // namespace gradmill
