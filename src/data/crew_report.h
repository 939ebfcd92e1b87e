// SPDX-License-Identifier: Apache-2.0
// What loader threads tell: how much they do, how long a run waits for them, and what goes wrong.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <string_view>

namespace gradmill {

// One line for the user.
using CrewNote = std::function<void(const std::string& line)>;

struct CrewStats {
  int64_t results = 0;
  double wait_seconds = 0;  // of whoever calls next(): with no workers all the work, else what they were too slow for
  double busy_seconds = 0;  // of all workers together
  int workers = 0;          // now
  int64_t failures = 0;
};

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

// Never empty.
std::string describe_failure(const std::exception_ptr& failure);
std::string describe_crew_failure(std::string_view what, bool replaced, int workers_left);

// Loader threads for a machine of so many cores: all but two, at least one. None where there is one core: a thread
// would only take turns with the one that waits for it.
int auto_loader_threads(int num_cores);
// For this machine; the system's limits on this process count.
int auto_loader_threads();

}  // namespace gradmill
