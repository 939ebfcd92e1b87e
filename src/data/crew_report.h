// SPDX-License-Identifier: Apache-2.0
// Reports about loader threads: how much they do, how long a run waits for them, and their failures.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <string_view>

namespace gradmill {

// Receives one line for the user.
using CrewNote = std::function<void(const std::string& line)>;

struct CrewStats {
  int64_t results = 0;
  double wait_seconds = 0;  // time that callers of next() waited; without workers this includes all the work
  double busy_seconds = 0;  // sum over all workers
  int workers = 0;          // current number
  int64_t failures = 0;
};

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

// Never returns an empty text.
std::string describe_failure(const std::exception_ptr& failure);
std::string describe_crew_failure(std::string_view what, bool replaced, int workers_left);

// The number of loader threads for a machine with this many cores: all but two, at least one. None on a single core,
// where a thread would only take turns with the one that waits for it.
int auto_loader_threads(int num_cores);
// For this machine, taking the system's limits on this process into account.
int auto_loader_threads();

}  // namespace gradmill
