// SPDX-License-Identifier: Apache-2.0
// DoRA's gains: gain_o = magnitude_o / ‖(W + s · B A)_o‖. The norm is expanded at rank r: ‖W_o‖² + 2 s (W Aᵀ)_o · B_o +
// s² B_o (A Aᵀ) B_oᵀ.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct DoraGainArgs {
  TensorView base_norms;  // (O) fp32: ‖W_o‖²
  TensorView product;     // (O, r) fp32: W Aᵀ
  TensorView gram;        // (r, r) fp32: A Aᵀ
  TensorView b;           // (O, r)
  TensorView magnitude;   // (O) fp32; undefined: returns the norms themselves
  TensorView gain;        // (O) fp32 out
  float scale = 1;        // s
};
void dora_gain(ExecContext& ctx, const DoraGainArgs& args);

template <Device D, class T>
void dora_gain(ExecContext& ctx, const DoraGainArgs& args);

}  // namespace gradmill
