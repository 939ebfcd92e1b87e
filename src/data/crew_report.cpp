// SPDX-License-Identifier: Apache-2.0
#include "data/crew_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace gradmill {

std::string describe_failure(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return *error.what() == '\0' ? "unknown failure" : error.what();
  } catch (...) {
    return "unknown failure";
  }
}

std::string describe_crew_failure(std::string_view what, bool replaced, int workers_left) {
  if (replaced) return fmt::format("a loader thread failed ({}) and was replaced", what);
  if (workers_left > 0) return fmt::format("a loader thread failed ({}); {} remaining", what, workers_left);
  return fmt::format("the last loader thread failed ({}); batches are now made without loader threads", what);
}

int auto_loader_threads(int num_cores) {
  constexpr int kEnough = 32;  // no run can use more
  if (num_cores <= 1) return 0;
  return std::clamp(num_cores - 2, 1, kEnough);
}

int auto_loader_threads() { return auto_loader_threads(static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace gradmill
