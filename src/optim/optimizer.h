// SPDX-License-Identifier: Apache-2.0
// AdamW with its moments, over the flat space of trainable parameters.
#pragma once

#include <array>

#include "nn/params.h"
#include "ops/adamw.h"

namespace gradmill {

struct AdamWOptions {
  float beta1 = 0.9f, beta2 = 0.99f, eps = 1e-8f;
  float weight_decay = 0.1f;  // of matrices; vectors do not decay
  float clip = 1.0f;          // global gradient norm; 0: off
};

class Optimizer {
 public:
  Optimizer(ExecContext& ctx, const ParamTable& table, const AdamWOptions& options);

  // Fills the scalars that stay the same from step to step.
  void set_scalars(StepInputs& inputs) const;
  // Norm, clip, verdict, then the update of every weight.
  void update(ExecContext& ctx, const Weights& weights, const Gradients& grads) const;

  // The moments, (P) fp32: to save, or to restore into.
  TensorView first_moments() const { return m_; }
  TensorView second_moments() const { return v_; }

 private:
  AdamWOptions options_;
  const ParamTable* table_;
  std::array<ParamGroup, kNumParamGroups> groups_;
  TensorView m_, v_;         // (P) fp32
  TensorView block_groups_;  // (P / kSegmentPadding) int8
};

}  // namespace gradmill
