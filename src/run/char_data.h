// SPDX-License-Identifier: Apache-2.0
// CharData: random windows of the characters of one text.
#pragma once

#include "data/characters/loader.h"
#include "data/tokens/token_split.h"
#include "run/run_data.h"

namespace gradmill {

class CharData final : public RunData {
 public:
  // A vocabulary in the options is that of a trained model: other characters are then an error.
  explicit CharData(const RunConfig& config, const RunDataOptions& options = {});

  const TokenSplit& tokens() const { return tokens_; }

  std::string describe() const override;
  int64_t steps_per_epoch() const override;
  std::unique_ptr<BatchSource> open(const DataPosition& from, const CrewNote& note) const override;
  void visit_validation(int64_t max_tokens, const UseBatch& use) const override;
  Task task() const override { return {}; }
  // A line break, or the first character of the text.
  std::vector<TokenId> prompt() const override;

 private:
  LoaderOptions loading_;
  int64_t eval_seqs_;
  TokenSplit tokens_;
};

}  // namespace gradmill
