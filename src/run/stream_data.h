// SPDX-License-Identifier: Apache-2.0
// StreamData: files that are tokenised during training. No tokens are stored.
#pragma once

#include <optional>

#include "data/tokens/token_stream.h"
#include "run/packed_validation.h"
#include "run/run_data.h"

namespace gradmill {

// The validation tokens are those of data.validation_path, from shards in the cache.
class StreamData final : public TextData {
 public:
  explicit StreamData(const RunConfig& config, const RunDataOptions& options = {});

  std::string describe() const override;
  int64_t steps_per_epoch() const override { return 0; }
  std::unique_ptr<BatchSource> open_edited(const DataPosition& from, const CrewNote& note,
                                           EditBatch edit) const override;
  void visit_validation(int64_t max_tokens, const UseBatch& use) const override { validation_->visit(max_tokens, use); }
  std::vector<TokenId> prompt() const override { return text_prompt(tokenizer_); }
  Task task() const override { return task_; }

 private:
  Task task_;
  std::vector<SourceFile> files_;
  RecordEncoding encoding_;
  TokenStreamOptions streaming_;
  std::optional<PackedValidation> validation_;
};

}  // namespace gradmill
