// SPDX-License-Identifier: Apache-2.0
// TrainLoader: random windows of a token stream, one StepBatch per step.
#pragma once

#include <cstdint>
#include <span>

#include "data/batch.h"
#include "data/prefetcher.h"

namespace gradmill {

struct LoaderOptions {
  int64_t batch_size = 0;        // sequences of the effective batch, of all ranks together
  int64_t micro_batch_size = 0;  // at most this many at once; 0 = all of the rank's
  int64_t context = 0;
  uint64_t seed = 0;
  int64_t rank = 0, num_ranks = 1;  // equal parts of each effective batch; num_ranks divides batch_size
  int num_threads = 0;              // 0: batches are made in next()
  int prefetch = 2;                 // steps made ahead, at most
  CrewNote note = {};               // of failing threads
};

// Start of sequence `index` of a step: a pure function of the arguments, uniform over [0, num_tokens - context).
int64_t window_begin(uint64_t seed, int64_t step, int64_t index, int64_t num_tokens, int64_t context);

// Batches depend on the tokens, the seed and the step alone: not on the threads, ranks, the start, or the cut into
// micro-batches. Micro-batches of a step differ by at most one sequence, in the same capacity. A rank gets its part's
// micro-batches; the step's num_targets are those of all ranks.
class TrainLoader {
 public:
  // `tokens` must outlive the loader. Throws a usage_error for a size out of range, and a data_error for fewer than
  // context + 1 tokens.
  TrainLoader(std::span<const int32_t> tokens, const LoaderOptions& options, int64_t first_step = 0);

  StepBatch next() { return prefetcher_.next(); }
  int64_t next_step() const { return prefetcher_.next_step(); }
  LoaderStats stats() const { return prefetcher_.stats(); }

 private:
  Prefetcher prefetcher_;
};

}  // namespace gradmill
