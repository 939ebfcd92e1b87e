// SPDX-License-Identifier: Apache-2.0
// LabelledData: texts or pairs of texts with classes or numbers, in unpadded batches.
#pragma once

#include <memory>

#include "data/labelled/labelled_batches.h"
#include "data/labelled/split.h"
#include "run/run_data.h"

namespace gradmill {

class LabelledData final : public RunData {
 public:
  // Reads and encodes everything; the sets are kept in memory.
  explicit LabelledData(const RunConfig& config, const RunDataOptions& options = {});

  std::string describe() const override;
  int64_t steps_per_epoch() const override { return training_->steps_per_epoch(); }
  std::unique_ptr<BatchSource> open(const DataPosition& from, const CrewNote& note) const override;
  // Always visits all of it.
  void visit_validation(int64_t max_tokens, const UseBatch& use) const override;
  std::vector<TokenId> prompt() const override { return {}; }
  Task task() const override;
  BatchShape shape(const BatchShape& configured) const override;

  const EncodedSet& validation_set() const { return validation_encoded_ ? *validation_encoded_ : *encoded_; }
  const std::vector<int32_t>& validation_examples() const { return validation_examples_; }

 private:
  void read(const RunConfig& config, const RunDataOptions& options);
  Split split(const RunConfig& config) const;
  void make_batches(const RunConfig& config, const Split& sides, const RunDataOptions& ranks);

  int num_threads_;
  int64_t context_;
  LabelledSet set_;
  std::optional<LabelledSet> validation_read_;  // if it has files of its own
  std::unique_ptr<EncodedSet> encoded_, validation_encoded_;
  std::vector<float> class_weights_;
  std::vector<int32_t> validation_examples_;
  std::unique_ptr<LabelledBatches> training_, validation_;
  int64_t total_tokens_ = 0, longest_ = 0;
};

// The options for reading labelled files, from the settings.
LabelledOptions labelled_options(const DataConfig& config);
// The number of tokens into which nearly every choice of `seqs` sequences of these lengths fits.
int64_t usual_tokens(std::span<const int64_t> lengths, int64_t seqs);

}  // namespace gradmill
