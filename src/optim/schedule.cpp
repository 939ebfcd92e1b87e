// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gradmill {

float CosineSchedule::at(int64_t step) const {
  if (step < warmup_steps) return static_cast<float>(double(peak) * double(step + 1) / double(warmup_steps));
  const double span = double(std::max<int64_t>(1, total_steps - warmup_steps));
  const double progress = std::min(1.0, double(step - warmup_steps) / span);
  return static_cast<float>(double(floor) + 0.5 * (double(peak) - floor) * (1 + std::cos(std::numbers::pi * progress)));
}

}  // namespace gradmill
