// SPDX-License-Identifier: Apache-2.0
// Clocks, which tests can replace.
#pragma once

#include <chrono>
#include <functional>

namespace gradmill {

using SecondsClock = std::function<double()>;

// Seconds since an arbitrary fixed moment. Never goes back.
double monotonic_seconds();
double seconds_since(std::chrono::steady_clock::time_point start);
// Seconds since 1970.
double unix_seconds();

}  // namespace gradmill
