// SPDX-License-Identifier: Apache-2.0
// DoRA's numbers that follow from weights: gain = magnitude / ‖W + scale · B A‖ of every row, and what makes it cheap.
// They change with the weights alone, so once a step is enough.
#pragma once

#include "nn/params.h"

namespace gradmill {

// ‖W_o‖² of the frozen weights: once they are loaded.
void refresh_base_norms(ExecContext& ctx, const Weights& weights);
// Gains for the adapters and magnitudes as they are: after every update. The norm is expanded at rank r:
// ‖W‖² + 2 s (W Aᵀ)·B + s² B (A Aᵀ) Bᵀ, one thin product a layer.
void refresh_gains(ExecContext& ctx, const Weights& weights);
// Magnitudes of fresh adapters: the norms, so that gains are 1.
void init_magnitudes(ExecContext& ctx, const Weights& weights);

}  // namespace gradmill
