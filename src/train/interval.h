// SPDX-License-Identifier: Apache-2.0
// Decides when something is due: after a number of steps, epochs or minutes, whichever comes first.
#pragma once

#include <chrono>
#include <cstdint>

namespace gradmill {

class Interval {
 public:
  Interval(int64_t every_steps, int64_t every_epochs, double every_minutes, int64_t steps_per_epoch)
      : steps_(every_steps), epoch_steps_(every_epochs * steps_per_epoch), minutes_(every_minutes) {}

  bool is_on() const { return steps_ > 0 || epoch_steps_ > 0 || minutes_ > 0; }
  // Whether it is due after `step` steps. The clock restarts each time it is due.
  bool due(int64_t step) {
    const bool now = (steps_ > 0 && step % steps_ == 0) || (epoch_steps_ > 0 && step % epoch_steps_ == 0) ||
                     (minutes_ > 0 && minutes_since_last() >= minutes_);
    if (now) last_ = Clock::now();
    return now;
  }

 private:
  using Clock = std::chrono::steady_clock;
  double minutes_since_last() const { return std::chrono::duration<double>(Clock::now() - last_).count() / 60; }

  int64_t steps_, epoch_steps_;
  double minutes_;
  Clock::time_point last_ = Clock::now();
};

}  // namespace gradmill
