// SPDX-License-Identifier: Apache-2.0
// ShardData: tokens in shards, packed into rows. Each token comes once per epoch.
#pragma once

#include <optional>

#include "data/tokens/packed_loader.h"
#include "run/packed_validation.h"
#include "run/run_data.h"

namespace gradmill {

// The validation tokens are those of data.validation_path, or the last tokens of data.path.
class ShardData final : public TextData {
 public:
  // Throws a data_error if there are too few tokens for training and validation.
  explicit ShardData(const RunConfig& config, const RunDataOptions& options = {});

  std::string describe() const override;
  int64_t steps_per_epoch() const override;
  std::unique_ptr<BatchSource> open_edited(const DataPosition& from, const CrewNote& note,
                                           EditBatch edit) const override;
  void visit_validation(int64_t max_tokens, const UseBatch& use) const override { validation_->visit(max_tokens, use); }
  std::vector<TokenId> prompt() const override { return text_prompt(tokenizer_); }
  Task task() const override { return task_; }

 private:
  Task task_;
  PackedLoaderOptions loading_;
  SharedShards shards_;
  std::optional<PackPlan> plan_;
  std::optional<PackedValidation> validation_;
  int64_t num_train_tokens_ = 0;
};

// Where the last `fraction` of the tokens begins: at the start of a document, unless that document is so long that less
// than half of the fraction would remain. Throws a data_error if one part would have no target.
int64_t held_out_begin(const ShardSet& shards, double fraction);

}  // namespace gradmill
