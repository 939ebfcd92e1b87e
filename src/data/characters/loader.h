// SPDX-License-Identifier: Apache-2.0
// TrainLoader: random windows of a token stream, one StepBatch per step.
#pragma once

#include <cstdint>
#include <span>

#include "data/batch.h"
#include "data/prefetcher.h"

namespace gradmill {

struct LoaderOptions {
  int64_t batch_size = 0;        // number of sequences in the effective batch
  int64_t micro_batch_size = 0;  // largest number of sequences per micro-batch; 0: batch_size
  int64_t context = 0;
  uint64_t seed = 0;
  int num_threads = 0;  // 0: next() makes the batches itself
  int prefetch = 2;     // largest number of steps made in advance
  CrewNote note = {};   // called when a thread fails
};

// Start of sequence `index` of a step: a pure function of the arguments, uniform over [0, num_tokens - context).
int64_t window_begin(uint64_t seed, int64_t step, int64_t index, int64_t num_tokens, int64_t context);

// Batches depend only on the tokens, the seed and the step, not on threads, the first step or the split into
// micro-batches. The micro-batches of a step all have the same capacity; their numbers of sequences differ by at most
// one.
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
