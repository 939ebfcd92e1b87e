// SPDX-License-Identifier: Apache-2.0
// AdamW with its moments, over the flat space of trainable parameters.
#pragma once

#include <string>
#include <vector>

#include "nn/params.h"
#include "ops/adamw.h"

namespace gradmill {

struct AdamWOptions {
  float beta1 = 0.9f, beta2 = 0.99f, eps = 1e-8f;
  float weight_decay = 0.1f;  // of matrices; vectors do not decay
  float clip = 1.0f;          // global gradient norm; 0: off
};

// A tensor that is kept from step to step, of any size and dtype, under the name that checkpoints give it.
struct StateTensor {
  std::string name;
  TensorView view;
};

class Optimizer {
 public:
  Optimizer(ExecContext& ctx, const ParamTable& table, const AdamWOptions& options);

  // Starts over with other settings.
  void reset(ExecContext& ctx, const AdamWOptions& options);
  // Fills the inputs that stay the same from step to step.
  void set_scalars(StepInputs& inputs) const;
  // Norm, clip, verdict, then the update of every weight.
  void update(ExecContext& ctx, const Weights& weights, const Gradients& grads) const;

  // Everything that is kept from step to step, to save or to restore into: always the same tensors in the same order.
  std::vector<StateTensor> state() const;

 private:
  AdamWOptions options_;
  const ParamTable* table_;
  TensorView m_, v_;         // (P) fp32
  TensorView block_groups_;  // (P / kSegmentPadding) int8
};

}  // namespace gradmill
