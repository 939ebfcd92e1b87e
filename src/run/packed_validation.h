// SPDX-License-Identifier: Apache-2.0
// PackedValidation: validation tokens, packed like the training tokens.
#pragma once

#include <memory>
#include <mutex>

#include "data/tokens/pack.h"
#include "run/run_data.h"
#include "run/token_source.h"

namespace gradmill {

class PackedValidation {
 public:
  // `batch_rows` rows are evaluated at once. Throws a data_error if there are no tokens.
  PackedValidation(SharedShards shards, const TokenRange& range, const PackOptions& options, int64_t batch_rows);
  // Uses all of the shards.
  PackedValidation(const SharedShards& shards, const PackOptions& options, int64_t batch_rows)
      : PackedValidation(shards, {0, shards->num_tokens()}, options, batch_rows) {}

  int64_t num_tokens() const { return num_tokens_; }
  // Like RunData::visit_validation: visits whole rows, evenly spaced, at least one.
  void visit(int64_t max_tokens, const RunData::UseBatch& use) const;

 private:
  // `count` of all rows, evenly spaced.
  RowList choose(int64_t count) const;
  // The same, made once, because evaluations during a run repeat it.
  std::shared_ptr<const RowList> chosen(int64_t count) const;
  bool use_rows(const RowList& rows, const RunData::UseBatch& use) const;

  SharedShards shards_;
  PackPlan plan_;
  int64_t batch_rows_, num_tokens_;
  // The last choice. Several runs may evaluate on this data at the same time.
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const RowList> chosen_;
};

}  // namespace gradmill
