// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/labelled_batch.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "core/seq_layout.h"

namespace gradmill {
namespace {

// Fills a micro-batch from its first row.
class Filler {
 public:
  explicit Filler(const LabelledCapacity& capacity) {
    const auto rows = static_cast<size_t>(token_capacity(capacity.num_tokens));
    const auto seqs = static_cast<size_t>(capacity.max_seqs);
    for (auto* row_values : {&batch_.tokens, &batch_.type_ids, &batch_.positions}) row_values->assign(rows, 0);
    for (auto* values : {&batch_.first_rows, &batch_.last_rows, &batch_.examples}) values->assign(seqs, 0);
    for (auto* values : {&batch_.targets, &batch_.weights}) values->assign(seqs, 0.0f);
    batch_.classes.assign(seqs, kPaddingTarget);
    batch_.cu_seqlens.assign(static_cast<size_t>(capacity.max_spans) + 1, 0);
  }

  void add(const LabelledSequence& sequence) {
    const auto index = static_cast<size_t>(batch_.num_seqs++);
    const int64_t length = std::ssize(sequence.tokens.ids);
    assert(length > 0 && index < batch_.classes.size());
    assert(row_ + length <= std::ssize(batch_.tokens));
    std::ranges::copy(sequence.tokens.ids, batch_.tokens.begin() + row_);
    std::ranges::copy(sequence.tokens.type_ids, batch_.type_ids.begin() + row_);
    batch_.first_rows[index] = static_cast<int32_t>(row_);
    batch_.last_rows[index] = static_cast<int32_t>(row_ + length - 1);
    batch_.classes[index] = sequence.label;
    batch_.targets[index] = sequence.target;
    batch_.weights[index] = sequence.weight;
    batch_.examples[index] = sequence.example;
    batch_.num_tokens += length;
    end_span(length);
  }

  void add_padding(int64_t length, TokenId pad_id) {
    assert(row_ + length <= std::ssize(batch_.tokens));
    std::fill_n(batch_.tokens.begin() + row_, length, pad_id);
    end_span(length);
  }

  LabelledMicroBatch finish(int64_t padded_to) {
    std::fill(batch_.cu_seqlens.begin() + num_spans_, batch_.cu_seqlens.end(), static_cast<int32_t>(row_));
    batch_.padded_length = padded_to;
    return std::move(batch_);
  }

 private:
  void end_span(int64_t length) {
    std::iota(batch_.positions.begin() + row_, batch_.positions.begin() + row_ + length, 0);
    batch_.cu_seqlens[static_cast<size_t>(num_spans_++)] = static_cast<int32_t>(row_);
    row_ += length;
  }

  LabelledMicroBatch batch_;
  int64_t row_ = 0, num_spans_ = 0;
};

}  // namespace

LabelledMicroBatch make_unpadded(std::span<const LabelledSequence* const> sequences, const LabelledCapacity& capacity) {
  Filler filler(capacity);
  for (const LabelledSequence* sequence : sequences) filler.add(*sequence);
  return filler.finish(0);
}

LabelledMicroBatch make_padded(std::span<const LabelledSequence* const> sequences, const LabelledCapacity& capacity,
                               TokenId pad_id) {
  int64_t longest = 0;
  for (const LabelledSequence* sequence : sequences) longest = std::max(longest, std::ssize(sequence->tokens.ids));
  Filler filler(capacity);
  for (const LabelledSequence* sequence : sequences) {
    filler.add(*sequence);
    filler.add_padding(padded_length(longest) - std::ssize(sequence->tokens.ids), pad_id);
  }
  return filler.finish(padded_length(longest));
}

}  // namespace gradmill
