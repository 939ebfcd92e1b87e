// SPDX-License-Identifier: Apache-2.0
// StepScalars: all numbers of a step that change between steps. They are in device memory, so that a captured graph
// contains none of them.
#pragma once

#include <cstdint>
#include <limits>

#include "core/segment.h"

namespace gradmill {

// Written by the host before a step, in one copy.
struct StepInputs {
  float lr = 0;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-8f;
  float clip = 0;  // 0: off
  float dropout = 0;
  float inv_targets = 0;                                      // 1 / number of targets in the whole effective batch
  float loss_limit = std::numeric_limits<float>::infinity();  // a larger mean loss cancels the update
  uint64_t seed = 0;
  uint32_t step = 0;                // index of this step; one of the RNG's counters
  uint32_t token_base = 0;          // first row of this micro-batch in the effective batch
  uint32_t scale_growth_steps = 0;  // number of finite steps after which the loss scale doubles; 0: it never changes
  uint32_t unused = 0;
  ParamGroup groups[kMaxParamGroups] = {};  // what AdamW does with each group of parameters
  double loss_sum = 0;  // over the target tokens of all micro-batches of the step; the step adds to it
};

struct alignas(16) StepScalars : StepInputs {
  // Written by the step.
  float loss_scale = 1;        // factor on the loss; halved after a step that is not finite (if scale_growth_steps > 0)
  uint32_t scale_streak = 0;   // finite steps since the loss scale last changed
  uint32_t updates = 0;        // optimiser updates so far: t of the bias corrections
  uint32_t finite = 1;         // 0 if the step is not finite: weights, moments, EMA and `updates` then stay unchanged
  float grad_norm = 0;         // norm of the unscaled gradient
  float grad_factor = 1;       // clip factor / loss scale, applied by the optimiser
  float bias_correction1 = 1;  // 1 - beta1^t
  float bias_correction2 = 1;
  uint32_t blocks_done = 0;  // counts finished blocks of the kernel that sets `finite`; the last one sets it. 0 between
                             // kernels
};

}  // namespace gradmill
