// SPDX-License-Identifier: Apache-2.0
// PackedLoader: the rows of a PackPlan, epoch after epoch, one StepBatch per step.
#pragma once

#include <cstdint>

#include "data/tokens/pack.h"
#include "data/prefetcher.h"
#include "data/records/record.h"

namespace gradmill {

struct PackedLoaderOptions {
  int64_t batch_size = 0;        // rows of the effective batch, over all ranks
  int64_t micro_batch_size = 0;  // largest number of rows per micro-batch; 0: all rows of the rank
  uint64_t seed = 0;
  bool shuffle = true;
  int64_t rank = 0, num_ranks = 1;  // equal parts of each effective batch; num_ranks divides batch_size
  int num_threads = 0;              // 0: next() makes the batches itself
  int prefetch = 2;                 // largest number of steps made in advance
  // What to do with tokens whose checksum is wrong: an error, or drop them as if their rows were shorter. A step
  // without any remaining rows is always an error.
  BadRecordPolicy damaged = BadRecordPolicy::error;
  CrewNote note = {};  // of damage that was left out, and of failing threads
  // Applied to every micro-batch, where there is one. The step's targets are only known after it, so each rank then
  // makes the micro-batches of all ranks.
  EditBatch edit = {};
};

// Applies options.edit to a rank's micro-batches of a step and returns the number of targets that all ranks then have.
// make(rank) makes another rank's micro-batches.
int64_t edit_step(const PackedLoaderOptions& options, int64_t step, std::vector<MicroBatch>& own,
                  const std::function<std::vector<MicroBatch>(int64_t rank)>& make);

// Throws a usage_error for a setting out of range.
void check_loader_options(const PackedLoaderOptions& options, int64_t context);

// Step s has the rows [s * batch_size, (s + 1) * batch_size) of the concatenated epochs: a step may end one epoch and
// begin the next, and each epoch contains every token once. Rows depend only on the plan, the seed and the step, not on
// threads, ranks, the first step or the split into micro-batches. So the number of completed steps is enough to resume.
//
// A rank gets its part's micro-batches, each with a capacity of micro_batch_size rows and micro_batch_size *
// plan.seqs_per_row() sequences. token_base counts the tokens before it in the effective batch, and the step's
// num_targets are those of all ranks, after options.edit.
class PackedLoader {
 public:
  // `plan` must outlive the loader. Throws a usage_error for a setting out of range. next() throws the errors of
  // ShardSet::read.
  PackedLoader(const PackPlan& plan, const PackedLoaderOptions& options, int64_t first_step = 0);

  StepBatch next() { return prefetcher_.next(); }
  int64_t next_step() const { return prefetcher_.next_step(); }
  LoaderStats stats() const { return prefetcher_.stats(); }

 private:
  Prefetcher prefetcher_;
};

}  // namespace gradmill
