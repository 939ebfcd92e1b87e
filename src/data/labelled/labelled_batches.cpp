// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/labelled_batches.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "data/tokens/best_fit.h"

namespace gradmill {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

void check_range(std::string_view what, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return;
  throw usage_error(fmt::format("the {} is {}", what, value), fmt::format("give a number from {} to {}", least, most));
}

// Fills in the defaults and checks the options.
LabelledBatchOptions checked(LabelledBatchOptions options, int64_t longest) {
  check_range("batch size", options.batch_size, 1, kMaxInt32);
  check_range("number of ranks", options.num_ranks, 1, options.batch_size);
  check_range("rank", options.rank, 0, options.num_ranks - 1);
  if (options.max_length == 0) options.max_length = longest;
  check_range("length of a sequence", options.max_length, longest, kMaxInt32);
  const int64_t of_rank = (options.batch_size + options.num_ranks - 1) / options.num_ranks;
  check_range("number of sequences in a micro-batch", options.micro_seqs, 0, kMaxInt32);
  options.micro_seqs = options.micro_seqs == 0 ? of_rank : std::min(options.micro_seqs, of_rank);
  // Rows are numbered in 32 bits, in a micro-batch and in the effective batch.
  check_range("batch size", options.batch_size, 1, kMaxInt32 / options.max_length);
  if (options.micro_tokens == 0) options.micro_tokens = options.micro_seqs * options.max_length;
  check_range("number of tokens in a micro-batch", options.micro_tokens, options.max_length, kMaxInt32 - 1024);
  options.micro_tokens = std::min(options.micro_tokens, options.micro_seqs * options.max_length);
  return options;
}

}  // namespace

LabelledBatches::LabelledBatches(const EncodedSet& set, std::vector<int32_t> examples,
                                 const LabelledBatchOptions& options, std::vector<float> class_weights,
                                 std::optional<Augmenter> augmenter)
    : set_(set),
      examples_(std::move(examples)),
      class_weights_(std::move(class_weights)),
      augmenter_(std::move(augmenter)) {
  if (examples_.empty()) throw data_error("no examples to make batches of", "give more data, or another split");
  int64_t longest = 0;
  for (const int32_t example : examples_) {
    assert(example >= 0 && example < set.size());
    longest = std::max(longest, set.length(example));
    lengths_.push_back(static_cast<int32_t>(std::min(set.length(example), kMaxInt32)));
  }
  if (augmenter_ && !options.training) {
    throw usage_error("augmentation of examples that are not for training", "leave it out of evaluations");
  }
  const int64_t limit = set.max_length();
  if (augmenter_ && limit == 0) {
    throw usage_error("augmentation of sequences without a limit", "limit their length: synonyms may be longer");
  }
  options_ = checked(options, augmenter_ ? limit : longest);
  capacity_ = {options_.micro_tokens, options_.micro_seqs};
  if (!class_weights_.empty() && std::ssize(class_weights_) != set.set().labels.size()) {
    throw usage_error(fmt::format("{} weights for {} classes", class_weights_.size(), set.set().labels.size()),
                      "give one for every class");
  }
}

int64_t LabelledBatches::steps_per_epoch() const {
  return (num_examples() + options_.batch_size - 1) / options_.batch_size;
}

LabelledBatches::Order LabelledBatches::order_of(int64_t epoch) const {
  // Other threads wait for the one that makes an order, because they would only make the same one.
  const std::lock_guard lock(mutex_);
  for (const auto& [known, order] : orders_) {
    if (known == epoch) return order;
  }
  if (orders_.size() == 2) orders_.erase(orders_.begin());
  const Order order = std::make_shared<const std::vector<int32_t>>(
      epoch_order(lengths_, options_.order, options_.batch_size, options_.seed, epoch));
  orders_.emplace_back(epoch, order);
  return order;
}

LabelledStep LabelledBatches::step(int64_t step) const {
  assert(step >= 0);
  LabelledStep result{.step = step, .epoch = step / steps_per_epoch()};
  const Order order = order_of(result.epoch);
  const int64_t begin = step % steps_per_epoch() * options_.batch_size;
  result.num_examples = std::min(options_.batch_size, num_examples() - begin);
  const auto example = [&](int64_t i) {
    return examples_[static_cast<size_t>((*order)[static_cast<size_t>(begin + i)])];
  };
  for (int64_t i = 0; i < result.num_examples; ++i) {
    if (!set_.set().is_labelled(set_.example(example(i)))) continue;
    ++result.num_labelled;
    result.weight_sum += weight(example(i));
  }
  const int64_t first = result.num_examples * options_.rank / options_.num_ranks;
  const int64_t last = result.num_examples * (options_.rank + 1) / options_.num_ranks;
  std::vector<LabelledSequence> sequences;
  for (int64_t i = first; i < last; ++i) sequences.push_back(sequence(example(i), result.epoch));
  result.micro = pack(sequences);
  // Examples of other ranks are not looked at: their rows are taken to be as many as there can be.
  int64_t base = first * options_.max_length;
  for (MicroBatch& batch : result.micro) {
    batch.token_base = base;
    base += batch.cu_seqlens.back();
  }
  return result;
}

float LabelledBatches::weight(int32_t example) const {
  const LabelledExample& entry = set_.example(example);
  if (!set_.set().is_labelled(entry)) return 0;
  return class_weights_.empty() ? 1.0f : class_weights_[static_cast<size_t>(entry.label)];
}

LabelledSequence LabelledBatches::sequence(int32_t example, int64_t epoch) const {
  const LabelledExample& entry = set_.example(example);
  LabelledSequence result{.example = example, .labelled = set_.set().is_labelled(entry)};
  result.tokens = augmenter_ ? augmenter_->sequence(set_, example, epoch) : set_.sequence(example);
  result.target = no_target();
  if (result.labelled) result.target = set_.set().regression ? std::bit_cast<int32_t>(entry.target) : entry.label;
  return result;
}

std::vector<MicroBatch> LabelledBatches::pack(const std::vector<LabelledSequence>& sequences) const {
  std::vector<int32_t> lengths;
  for (const LabelledSequence& sequence : sequences)
    lengths.push_back(static_cast<int32_t>(sequence.tokens.ids.size()));
  const BinPacking packing = best_fit_decreasing(lengths, static_cast<int32_t>(options_.micro_tokens),
                                                 static_cast<int32_t>(options_.micro_seqs));
  std::vector<std::vector<const LabelledSequence*>> bins(static_cast<size_t>(packing.num_bins));
  for (size_t i = 0; i < sequences.size(); ++i) {
    bins[static_cast<size_t>(packing.bin_of[i])].push_back(&sequences[i]);
  }
  std::vector<MicroBatch> batches;
  for (const auto& bin : bins) batches.push_back(make_labelled_batch(bin, capacity_, no_target()));
  return batches;
}

}  // namespace gradmill
