// SPDX-License-Identifier: Apache-2.0
#include "metrics/clock.h"

#include <chrono>

namespace gradmill {
namespace {

template <class Clock>
double seconds_of() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace

double monotonic_seconds() { return seconds_of<std::chrono::steady_clock>(); }
double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double unix_seconds() { return seconds_of<std::chrono::system_clock>(); }

}  // namespace gradmill
