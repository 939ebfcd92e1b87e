// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/labelled_batch.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace gradmill {

MicroBatch make_labelled_batch(std::span<const LabelledSequence* const> sequences, const LabelledCapacity& capacity,
                               int32_t no_target) {
  MicroBatch batch = empty_micro_batch(capacity.num_tokens, capacity.max_seqs);
  const auto seqs = static_cast<size_t>(capacity.max_seqs);
  batch.token_types.assign(batch.tokens.size(), 0);
  batch.targets.assign(seqs, no_target);
  batch.examples.assign(seqs, 0);
  int64_t row = 0;
  for (const LabelledSequence* sequence : sequences) {
    const auto index = static_cast<size_t>(batch.num_seqs++);
    const int64_t length = std::ssize(sequence->tokens.ids);
    assert(length > 0 && index < seqs && row + length <= std::ssize(batch.tokens));
    std::ranges::copy(sequence->tokens.ids, batch.tokens.begin() + row);
    std::ranges::copy(sequence->tokens.type_ids, batch.token_types.begin() + row);
    std::iota(batch.positions.begin() + row, batch.positions.begin() + row + length, 0);
    row += length;
    batch.cu_seqlens[index + 1] = static_cast<int32_t>(row);
    batch.targets[index] = sequence->target;
    batch.examples[index] = sequence->example;
    batch.num_targets += sequence->labelled ? 1 : 0;
  }
  std::fill(batch.cu_seqlens.begin() + batch.num_seqs + 1, batch.cu_seqlens.end(), static_cast<int32_t>(row));
  return batch;
}

}  // namespace gradmill
