// SPDX-License-Identifier: Apache-2.0
// Prefetcher: threads that make batches in advance. The results of next() do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <functional>

#include "data/batch.h"
#include "data/crew.h"

namespace gradmill {

struct LoaderStats {
  int64_t steps = 0, tokens = 0;  // returned by next()
  CrewStats crew;                 // its wait_seconds are the run's stall time
};

class Prefetcher {
 public:
  using Make = std::function<StepBatch(int64_t step)>;

  // `make` must be a pure function of the step: threads call it at the same time and out of order. Without threads,
  // next() calls it. At most `prefetch` steps are made in advance.
  Prefetcher(Make make, int num_threads, int prefetch, int64_t first_step, CrewNote note = {});

  // The batch of the next step. An Error thrown by `make` for that step is thrown here, and again by every later call.
  // For other failures see Crew.
  StepBatch next();
  int64_t next_step() const { return next_step_; }
  LoaderStats stats() const;

 private:
  int64_t next_step_, to_take_;
  LoaderStats stats_;
  Crew<int64_t, StepBatch> crew_;  // last, so that its threads end before the data they use
};

}  // namespace gradmill
