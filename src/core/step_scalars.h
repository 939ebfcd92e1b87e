// SPDX-License-Identifier: Apache-2.0
// StepScalars: every number of a step that changes between steps. It lies in device memory, so a captured
// graph bakes none of them in.
#pragma once

#include <cstdint>
#include <limits>

namespace gradmill {

// Written by the host before a step, all at once.
struct StepInputs {
  float lr = 0;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-8f;
  float clip = 0;  // 0: off
  float dropout = 0;
  float inv_targets = 0;                                      // 1 / targets of the whole effective batch
  float loss_limit = std::numeric_limits<float>::infinity();  // a mean loss above it gates the update
  uint64_t seed = 0;
  uint32_t step = 0;                // index of this step; the RNG's coordinate
  uint32_t token_base = 0;          // first row of this micro-batch in the effective batch
  uint32_t scale_growth_steps = 0;  // finite steps after which the loss scale doubles; 0: it never changes
  uint32_t unused = 0;
  double loss_sum = 0;  // over target tokens, all micro-batches of the step; the step adds to it
};

struct alignas(16) StepScalars : StepInputs {
  // Written by the step.
  float loss_scale = 1;        // multiplies the loss; halved by a step that is not finite (with scale_growth_steps)
  uint32_t scale_streak = 0;   // finite steps since it last changed
  uint32_t updates = 0;        // optimiser updates made: t of the bias corrections
  uint32_t finite = 1;         // the verdict: 0 gates weights, moments, EMA and `updates`
  float grad_norm = 0;         // of the unscaled gradient
  float grad_factor = 1;       // clip factor / loss scale, applied by the optimiser
  float bias_correction1 = 1;  // 1 - beta1^t
  float bias_correction2 = 1;
  uint32_t blocks_done = 0;  // of the kernel that judges, whose last block does; 0 between kernels
};

}  // namespace gradmill
