// SPDX-License-Identifier: Apache-2.0
// Products with an activation on Hopper, for hidden layers of a multiple of 256: while a tile is multiplied, others
// apply the activation to the tile before. As where they are two ops, y is the activation of x as it is stored, and dx
// comes from the product's rounded elements. Deterministic.
#pragma once

#include "ops/matmul/matmul_activation.h"

namespace gradmill {

bool wide_hopper_supports(const ExecContext& ctx, const MatmulActivationArgs& args);
bool wide_hopper_supports(const ExecContext& ctx, const MatmulActivationGradArgs& args);

template <class T>
void wide_hopper_matmul_activation(ExecContext& ctx, const MatmulActivationArgs& args);
// All but dbias. dx may be x.
template <class T>
void wide_hopper_matmul_activation_backward(ExecContext& ctx, const MatmulActivationGradArgs& args);

}  // namespace gradmill
