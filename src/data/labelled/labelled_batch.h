// SPDX-License-Identifier: Apache-2.0
// Batches of labelled sequences in host memory: what a step, or an evaluation, copies to the device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/batch.h"
#include "tokenizer/sequence_template.h"

namespace gradmill {

struct LabelledStep {
  int64_t step = 0, epoch = 0;
  std::vector<MicroBatch> micro;  // of this rank; may be empty where the last batch of an epoch is short
  int64_t num_examples = 0;       // of all ranks
  int64_t num_labelled = 0;
  double weight_sum = 0;  // what the step's loss is divided by
};

// What a micro-batch holds at most; the same for all of a run, so that a memory plan holds.
struct LabelledCapacity {
  int64_t num_tokens = 0;  // N before it is rounded up
  int64_t max_seqs = 0;
};

struct LabelledSequence {
  Sequence tokens;
  int32_t example = 0;
  int32_t target = 0;  // as in MicroBatch::targets
  bool labelled = false;
};

// One sequence after the other. They must fit. `no_target` is what entries beyond the last sequence have.
MicroBatch make_labelled_batch(std::span<const LabelledSequence* const> sequences, const LabelledCapacity& capacity,
                               int32_t no_target);

}  // namespace gradmill
