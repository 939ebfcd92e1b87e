// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules. The rate is a function of the step, so resuming needs no state.
#pragma once

#include <cstdint>
#include <string_view>

namespace gradmill {

enum class ScheduleKind : uint8_t { constant, linear, cosine, wsd };

// Throws a usage error that lists the names.
ScheduleKind schedule_kind(std::string_view name);

// Linear warm-up to `peak`. Then the rate stays constant; or falls to `floor` at the last step, linearly or as half a
// cosine; or, for wsd (warm-up, stable, decay), stays constant and falls linearly over the last `decay_fraction` of the
// run.
struct Schedule {
  ScheduleKind kind = ScheduleKind::cosine;
  float peak = 1e-3f;
  float floor = 1e-4f;
  int64_t warmup_steps = 100;
  int64_t total_steps = 2000;
  double decay_fraction = 0.2;

  float at(int64_t step) const;
};

}  // namespace gradmill
