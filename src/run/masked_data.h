// SPDX-License-Identifier: Apache-2.0
// MaskedData: texts of which an encoder learns hidden tokens. Of the tokens of a batch a share is chosen: four fifths
// of those become the mask token, a tenth another token, a tenth stay; all of them are to be told. What is chosen is a
// function of seed, step and place, so that no step hides what another did, and a resumed run hides the same.
#pragma once

#include "run/run_data.h"

namespace gradmill {

struct MaskRule {
  double probability = 0;
  uint64_t seed = 0;
  TokenId mask = 0;
  int64_t vocab = 0;
  std::vector<bool> kept;  // by id: tokens that belong to no text, and are never hidden
};

// Throws a usage_error where the tokenizer has no mask token.
MaskRule mask_rule(const RunConfig& config, const RunTokenizer& tokenizer);

// Which draw of the same places this is.
enum class MaskUse : uint32_t { train = 0, validation = 1 };
// Tokens and targets of a batch of running text.
void hide_tokens(const MaskRule& rule, MaskUse use, int64_t step, MicroBatch& batch);
// Batches to validate on: the same tokens are hidden every time.
RunData::UseBatch hiding(const MaskRule& rule, const RunData::UseBatch& use);

class MaskedData final : public RunData {
 public:
  MaskedData(const RunConfig& config, std::unique_ptr<TextData> text);

  std::string describe() const override;
  int64_t steps_per_epoch() const override { return text_->steps_per_epoch(); }
  std::unique_ptr<BatchSource> open(const DataPosition& from, const CrewNote& note) const override;
  void visit_validation(int64_t max_tokens, const UseBatch& use) override;
  std::vector<TokenId> prompt() const override { return {}; }
  Task task() const override { return {.kind = TaskKind::mask}; }
  BatchShape shape(const BatchShape& configured) const override { return text_->shape(configured); }

 private:
  std::unique_ptr<TextData> text_;
  MaskRule rule_;
};

}  // namespace gradmill
