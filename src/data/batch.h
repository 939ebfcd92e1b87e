// SPDX-License-Identifier: Apache-2.0
// Batches in host memory: what a step, or an evaluation, copies to the device.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/ignored_target.h"

namespace gradmill {

// N rows, padded to a multiple of kTokenPadding, and room for max_seqs sequences, which lie one after the other from
// row 0. Rows after the last sequence are padding: token 0, position 0, target kIgnoredTarget.
struct MicroBatch {
  std::vector<int32_t> tokens;  // (N)
  // (N) the token after each token. For labelled sequences (max_seqs): the class, or the bits of the fp32 value.
  std::vector<int32_t> targets;
  std::vector<float> weights = {};        // (N) factors of the rows' losses, or empty: 1. Not of labelled sequences
  std::vector<int32_t> positions;         // (N) from 0 in every sequence
  std::vector<int32_t> cu_seqlens;        // (max_seqs + 1) first row of each sequence; unused entries repeat the last
  std::vector<int32_t> token_types = {};  // (N), or empty: 0 everywhere
  std::vector<int32_t> examples = {};     // (max_seqs) which of a labelled set a sequence is; else empty
  int64_t num_seqs = 0;
  int64_t num_targets = 0;
  int64_t token_base = 0;  // first row's index in the effective batch: the tokens before it
};

struct StepBatch {
  int64_t step = 0;
  std::vector<MicroBatch> micro;
  int64_t num_targets = 0;                 // of all micro-batches
  std::optional<double> weight_sum = {};   // where targets weigh differently
  std::optional<int64_t> num_tokens = {};  // where not every token has a target

  // What the step's loss is divided by.
  double divisor() const { return weight_sum.value_or(double(num_targets)); }
  int64_t tokens() const { return num_tokens.value_or(num_targets); }
};

// Changes a micro-batch of a step, its targets and num_targets too, before it is used: hides tokens, for example. A
// function of its arguments alone; any thread may call it.
using EditBatch = std::function<void(int64_t step, MicroBatch& batch)>;

// Rows [first, last) of an effective batch.
struct RowRange {
  int64_t first = 0, last = 0;
};
// `count` rows from `first` on in as few parts of at most `most` as there can be, the larger ones first: 128 in parts
// of at most 26 is 26 + 26 + 26 + 25 + 25. `most` 0: one part.
std::vector<RowRange> even_parts(int64_t first, int64_t count, int64_t most);

// `length` tokens to read from `begin` on; the targets reach one token further.
struct Window {
  int64_t begin = 0;
  int64_t length = 0;
};

// Padding alone, with room for num_tokens tokens.
MicroBatch empty_micro_batch(int64_t num_tokens, int64_t max_seqs);

// One sequence a window, in order. At most max_seqs windows, none longer than context; room for max_seqs * context
// tokens.
MicroBatch make_micro_batch(std::span<const int32_t> tokens, std::span<const Window> windows, int64_t max_seqs,
                            int64_t context);

// Windows of `context` tokens that cover `tokens` in order without overlap, `batch_size` to a micro-batch, all of the
// same capacity. With max_tokens 0 the last window may be shorter, and every token but the first is a target exactly
// once; otherwise evenly spaced windows with at most max_tokens targets in all. Throws a usage_error for sizes that are
// not positive (max_tokens: negative), a data_error for fewer than two tokens.
std::vector<MicroBatch> eval_batches(std::span<const int32_t> tokens, int64_t batch_size, int64_t context,
                                     int64_t max_tokens);

}  // namespace gradmill
