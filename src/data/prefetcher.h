// SPDX-License-Identifier: Apache-2.0
// Prefetcher: threads that make batches ahead of their use. What next() gives does not depend on how many there are.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "data/batch.h"

namespace gradmill {

class Prefetcher {
 public:
  using Make = std::function<StepBatch(int64_t step)>;

  // `make` must be a pure function of the step: threads call it at the same time and out of order. With no threads
  // next() calls it itself. At most `prefetch` steps are made ahead of the one next() returns next.
  Prefetcher(Make make, int num_threads, int prefetch, int64_t first_step);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next step's batch. What `make` threw for that step is thrown here, again on every later call.
  StepBatch next();
  int64_t next_step() const { return next_step_; }

 private:
  struct Made {
    StepBatch batch;
    std::exception_ptr failure;
  };

  void work(const std::stop_token& stop);

  Make make_;
  int64_t prefetch_;
  int64_t next_step_;  // of next(); written by its caller alone, under the mutex
  int64_t to_make_;    // first step no thread has taken
  std::map<int64_t, Made> made_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::jthread> threads_;  // last, so that they end before what they use
};

}  // namespace gradmill
