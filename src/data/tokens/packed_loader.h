// SPDX-License-Identifier: Apache-2.0
// PackedLoader: the rows of a PackPlan, epoch after epoch, one StepBatch a step.
#pragma once

#include <cstdint>

#include "data/tokens/pack.h"
#include "data/prefetcher.h"
#include "data/records/record.h"

namespace gradmill {

struct PackedLoaderOptions {
  int64_t batch_size = 0;        // rows of the effective batch, of all ranks together
  int64_t micro_batch_size = 0;  // at most this many at once; 0 = all of the rank's
  uint64_t seed = 0;
  bool shuffle = true;
  int64_t rank = 0, num_ranks = 1;  // equal parts of each effective batch; num_ranks divides batch_size
  int num_threads = 0;              // 0: batches are made in next()
  int prefetch = 2;                 // steps made ahead, at most
  // Tokens that a checksum finds damaged: an error, or left out as if their rows were shorter. A step where nothing is
  // left is an error in any case.
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

// Step s has the rows [s * batch_size, (s + 1) * batch_size) of all epochs in a row: a step may end one epoch and begin
// the next, and each epoch has every token once. Rows depend on the plan, the seed and the step alone: not on threads,
// ranks, the start, or the cut into micro-batches; so the number of steps done is all there is to resume from.
//
// A rank gets its part's micro-batches, each with a capacity of micro_batch_size rows and micro_batch_size *
// plan.seqs_per_row() sequences. token_base counts the tokens before it in the effective batch, and the step's
// num_targets are those of all ranks, after options.edit.
class PackedLoader {
 public:
  // `plan` must outlive the loader. Throws a usage_error for a setting out of range; next() throws as ShardSet::read.
  PackedLoader(const PackPlan& plan, const PackedLoaderOptions& options, int64_t first_step = 0);

  StepBatch next() { return prefetcher_.next(); }
  int64_t next_step() const { return prefetcher_.next_step(); }
  LoaderStats stats() const { return prefetcher_.stats(); }

 private:
  Prefetcher prefetcher_;
};

}  // namespace gradmill
