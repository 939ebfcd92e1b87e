// SPDX-License-Identifier: Apache-2.0
// LabelledBatches: the examples of a set, or of one side of a split, epoch after epoch, one LabelledStep per step.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "data/labelled/augment.h"
#include "data/labelled/encoded_set.h"
#include "data/labelled/example_order.h"
#include "data/labelled/labelled_batch.h"

namespace gradmill {

struct LabelledBatchOptions {
  bool training = true;  // only training examples may be augmented
  ExampleOrder order = ExampleOrder::grouped;
  int64_t batch_size = 0;    // examples of the effective batch, of all ranks together
  int64_t micro_seqs = 0;    // sequences of a micro-batch, at most; 0: all of the rank's
  int64_t micro_tokens = 0;  // its tokens at most; 0: micro_seqs * max_length
  int64_t max_length = 0;    // no sequence is longer, augmented ones neither: the set's limit; 0: its longest sequence
  uint64_t seed = 0;
  int64_t rank = 0, num_ranks = 1;  // each batch is cut into parts whose sizes differ by at most one
};

// An epoch has ceil(examples / batch_size) steps and contains every example once; the last step has the remaining
// examples. A step depends only on the set, the options and its number, not on threads or on where a run began.
class LabelledBatches {
 public:
  // `set` must outlive this object. `examples` are indices into the set, in the order for ExampleOrder::sequential.
  // Class weights: one per class, or none, which means 1 everywhere. Throws a usage_error for a setting out of range,
  // for class weights in a regression, and for augmentation without training; throws a data_error if there are no
  // examples.
  LabelledBatches(const EncodedSet& set, std::vector<int32_t> examples, const LabelledBatchOptions& options,
                  std::vector<float> class_weights = {}, std::optional<Augmenter> augmenter = {});

  int64_t num_examples() const { return static_cast<int64_t>(examples_.size()); }
  int64_t steps_per_epoch() const;
  LabelledCapacity capacity() const { return capacity_; }

  // May be called from any thread, with any step from 0 on.
  LabelledStep step(int64_t step) const;

 private:
  using Order = std::shared_ptr<const std::vector<int32_t>>;

  Order order_of(int64_t epoch) const;
  LabelledSequence sequence(int32_t example, int64_t epoch) const;
  float weight(int32_t example) const;
  // A regression's values have none that stands for nothing, so it is 0.
  int32_t no_target() const { return set_.set().regression ? 0 : kIgnoredTarget; }
  // Best fit: each micro-batch holds as many sequences as its tokens allow.
  std::vector<MicroBatch> pack(const std::vector<LabelledSequence>& sequences) const;

  const EncodedSet& set_;
  std::vector<int32_t> examples_, lengths_;
  LabelledBatchOptions options_;
  LabelledCapacity capacity_;
  std::vector<float> class_weights_;
  std::optional<Augmenter> augmenter_;

  // The orders of the two epochs used last, because threads that work ahead may already be in the next one.
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<int64_t, Order>> orders_;
};

}  // namespace gradmill
