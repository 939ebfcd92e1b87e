// SPDX-License-Identifier: Apache-2.0
// Batches of labelled sequences in host memory: what a step, or an evaluation, copies to the device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/batch.h"
#include "tokenizer/sequence_template.h"

namespace gradmill {

// Rows are as in MicroBatch: N rows, a multiple of kTokenPadding, with spans of rows that attend to each other, one
// after the other from row 0. Unpadded, a span is a sequence. Padded, sequence s is span 2s and the padding after it is
// span 2s + 1, so that no token attends to padding and every sequence begins at a multiple of padded_length. Rows after
// the last span have token 0, type 0 and position 0.
struct LabelledMicroBatch {
  std::vector<int32_t> tokens;      // (N)
  std::vector<int32_t> type_ids;    // (N)
  std::vector<int32_t> positions;   // (N) from 0 in every span
  std::vector<int32_t> cu_seqlens;  // (max_spans + 1) first row of each span; unused entries repeat the last

  // For each sequence; entries from num_seqs on are 0, in `classes` kPaddingTarget.
  std::vector<int32_t> first_rows;  // (max_seqs) of its first token, where encoders pool
  std::vector<int32_t> last_rows;   // (max_seqs) of its last token, where decoders pool
  std::vector<int32_t> classes;     // (max_seqs) kPaddingTarget: unlabelled, or a regression
  std::vector<float> targets;       // (max_seqs) of a regression
  std::vector<float> weights;       // (max_seqs) in the loss: the class's, 1 in a regression, 0 if unlabelled
  std::vector<int32_t> examples;    // (max_seqs) their numbers in the set

  int64_t num_seqs = 0;
  int64_t num_tokens = 0;     // without padding
  int64_t padded_length = 0;  // rows of each sequence; 0: unpadded
  // The first row's place in the effective batch, for random numbers: no other row of the step has the same one.
  int64_t token_base = 0;
};

struct LabelledStep {
  int64_t step = 0, epoch = 0;
  std::vector<LabelledMicroBatch> micro;  // of this rank; may be empty where the last batch of an epoch is short
  int64_t num_examples = 0;               // of all ranks
  int64_t num_labelled = 0;
  double weight_sum = 0;  // what the step's loss is divided by
};

// What a micro-batch holds at most; the same for all of a run, so that a memory plan holds.
struct LabelledCapacity {
  int64_t num_tokens = 0;  // N before it is rounded up
  int64_t max_seqs = 0;
  int64_t max_spans = 0;
};

struct LabelledSequence {
  Sequence tokens;
  int32_t example = 0;
  int32_t label = kPaddingTarget;
  float target = 0;
  float weight = 0;
};

// One sequence after the other. They must fit.
LabelledMicroBatch make_unpadded(std::span<const LabelledSequence* const> sequences, const LabelledCapacity& capacity);
// Each padded with pad_id to the longest of them, rounded up to a multiple of 8.
LabelledMicroBatch make_padded(std::span<const LabelledSequence* const> sequences, const LabelledCapacity& capacity,
                               TokenId pad_id);

inline constexpr int64_t kPadMultiple = 8;
inline int64_t padded_length(int64_t length) { return (length + kPadMultiple - 1) / kPadMultiple * kPadMultiple; }

}  // namespace gradmill
