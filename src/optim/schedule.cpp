// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace gradmill {
namespace {

// The fraction of the way from peak to floor, for a progress in [0, 1] after the warm-up.
double fall(const Schedule& schedule, double progress) {
  switch (schedule.kind) {
    case ScheduleKind::constant:
      return 0;
    case ScheduleKind::linear:
      return progress;
    case ScheduleKind::cosine:
      return 0.5 * (1 - std::cos(std::numbers::pi * progress));
    case ScheduleKind::wsd: {
      const double start = 1 - schedule.decay_fraction;
      return progress <= start ? 0 : (progress - start) / schedule.decay_fraction;
    }
  }
  return 0;
}

}  // namespace

ScheduleKind schedule_kind(std::string_view name) {
  constexpr std::string_view kNames[] = {"constant", "linear", "cosine", "wsd"};
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) {
    throw usage_error(fmt::format("unknown schedule '{}'", name), "choose one of: constant, linear, cosine, wsd");
  }
  return static_cast<ScheduleKind>(found - std::begin(kNames));
}

float Schedule::at(int64_t step) const {
  if (step < warmup_steps) return static_cast<float>(double(peak) * double(step + 1) / double(warmup_steps));
  const double span = double(std::max<int64_t>(1, total_steps - warmup_steps));
  const double progress = std::min(1.0, double(step - warmup_steps) / span);
  return static_cast<float>(double(peak) + (double(floor) - peak) * fall(*this, progress));
}

}  // namespace gradmill
