// SPDX-License-Identifier: Apache-2.0
// PackedValidation: tokens to validate on, packed as those to train on.
#pragma once

#include "data/tokens/pack.h"
#include "run/run_data.h"
#include "run/token_source.h"

namespace gradmill {

class PackedValidation {
 public:
  // `batch_rows` rows are evaluated at once. Throws a data_error where there is no token.
  PackedValidation(SharedShards shards, const TokenRange& range, const PackOptions& options, int64_t batch_rows);
  // All of the shards.
  PackedValidation(const SharedShards& shards, const PackOptions& options, int64_t batch_rows)
      : PackedValidation(shards, {0, shards->num_tokens()}, options, batch_rows) {}

  int64_t num_tokens() const { return num_tokens_; }
  // As RunData::visit_validation: whole rows, evenly spaced, at least one.
  void visit(int64_t max_tokens, const RunData::UseBatch& use);

 private:
  // `count` of all rows, evenly spaced.
  RowList choose(int64_t count) const;
  bool use_rows(const RowList& rows, const RunData::UseBatch& use) const;

  SharedShards shards_;
  PackPlan plan_;
  int64_t batch_rows_, num_tokens_;
  RowList chosen_;  // of the last choice: evaluations within a run repeat it
};

}  // namespace gradmill
