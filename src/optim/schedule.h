// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules: the rate is a function of the step, so resuming needs no state.
#pragma once

#include <cstdint>

namespace gradmill {

// Linear warm-up to `peak`, then a half cosine down to `floor` at the last step.
struct CosineSchedule {
  float peak = 1e-3f;
  float floor = 1e-4f;
  int64_t warmup_steps = 100;
  int64_t total_steps = 2000;

  float at(int64_t step) const;
};

}  // namespace gradmill
