// SPDX-License-Identifier: Apache-2.0
// MaskedData: texts in which an encoder learns to predict hidden tokens. A fraction of the tokens of a batch is chosen
// as targets: four fifths of them become the mask token, a tenth another token, and a tenth stay as they are. The
// choice depends on seed, step and position alone, so that every step hides other tokens, and a resumed run hides the
// same.
#pragma once

#include "run/run_data.h"

namespace gradmill {

struct MaskRule {
  double probability = 0;
  uint64_t seed = 0;
  TokenId mask = 0;
  int64_t vocab = 0;
  std::vector<bool> kept;  // by id: special tokens, which are never hidden
};

// Throws a usage_error if the tokenizer has no mask token.
MaskRule mask_rule(const RunConfig& config, const RunTokenizer& run_tokenizer);

// Separates the random choices for training and validation.
enum class MaskUse : uint32_t { train = 0, validation = 1 };
// Hides tokens of a batch of running text and sets its targets.
void hide_tokens(const MaskRule& rule, MaskUse use, int64_t step, MicroBatch& batch);
// For validation batches: hides the same tokens every time.
RunData::UseBatch hiding_tokens(const MaskRule& rule, const RunData::UseBatch& use);

class MaskedData final : public RunData {
 public:
  MaskedData(const RunConfig& config, std::unique_ptr<TextData> text);

  std::string describe() const override;
  int64_t steps_per_epoch() const override { return text_->steps_per_epoch(); }
  std::unique_ptr<BatchSource> open(const DataPosition& from, const CrewNote& note) const override;
  void visit_validation(int64_t max_tokens, const UseBatch& use) const override;
  std::vector<TokenId> prompt() const override { return {}; }
  Task task() const override { return {.kind = TaskKind::mask}; }
  BatchShape shape(const BatchShape& configured) const override { return text_->shape(configured); }

 private:
  std::unique_ptr<TextData> text_;
  MaskRule rule_;
};

}  // namespace gradmill
