// SPDX-License-Identifier: Apache-2.0
#include "data/prefetcher.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace gradmill {

// More threads than steps in advance would only wait.
Prefetcher::Prefetcher(Make make, int num_threads, int prefetch, int64_t first_step, CrewNote note)
    : next_step_(first_step),
      to_take_(first_step),
      crew_([this] { return std::optional(to_take_++); }, [make = std::move(make)](int64_t step) { return make(step); },
            {.num_workers = std::min(num_threads, prefetch), .ahead = prefetch, .note = std::move(note)}) {
  assert(num_threads >= 0 && prefetch >= 1 && first_step >= 0);
}

StepBatch Prefetcher::next() {
  StepBatch batch = std::move(*crew_.next());
  ++next_step_;
  ++stats_.steps;
  for (const MicroBatch& micro : batch.micro) stats_.tokens += micro.cu_seqlens.back();
  return batch;
}

LoaderStats Prefetcher::stats() const {
  LoaderStats stats = stats_;
  stats.crew = crew_.stats();
  return stats;
}

}  // namespace gradmill
