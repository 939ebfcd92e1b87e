// SPDX-License-Identifier: Apache-2.0
// Prefetcher: threads that make batches ahead of their use. What next() gives does not depend on how many there are.
#pragma once

#include <cstdint>
#include <functional>

#include "data/batch.h"
#include "data/crew.h"

namespace gradmill {

struct LoaderStats {
  int64_t steps = 0, tokens = 0;  // that next() gave
  CrewStats crew;                 // its wait_seconds are the run's stall time
};

class Prefetcher {
 public:
  using Make = std::function<StepBatch(int64_t step)>;

  // `make` must be a pure function of the step: threads call it at the same time and out of order. With no threads
  // next() calls it itself. At most `prefetch` steps are made ahead of the one next() returns next.
  Prefetcher(Make make, int num_threads, int prefetch, int64_t first_step, CrewNote note = {});

  // The next step's batch. An Error that `make` threw for that step is thrown here, again on every later call; other
  // failures as Crew says.
  StepBatch next();
  int64_t next_step() const { return next_step_; }
  LoaderStats stats() const;

 private:
  int64_t next_step_, to_take_;
  LoaderStats stats_;
  Crew<int64_t, StepBatch> crew_;  // last, so that its threads end before what they use
};

}  // namespace gradmill
