// SPDX-License-Identifier: Apache-2.0
#include "run/packed_validation.h"

#include <algorithm>
#include <utility>

namespace gradmill {

PackedValidation::PackedValidation(SharedShards shards, const TokenRange& range, const PackOptions& options,
                                   int64_t batch_rows)
    : shards_(std::move(shards)),
      plan_(*shards_, options, range),
      batch_rows_(batch_rows),
      num_tokens_(range.end - range.begin) {}

RowList PackedValidation::choose(int64_t count) const {
  RowList rows;
  int64_t next = 0, first_row = 0;  // index among the wanted rows; first row of the block
  const auto wanted = [&] { return next * plan_.num_rows() / count; };
  for (int64_t block = 0; block < plan_.num_blocks() && next < count; first_row += plan_.num_rows(block++)) {
    const int64_t end = first_row + plan_.num_rows(block);
    if (wanted() >= end) continue;
    const RowList all = plan_.block(block);
    for (; next < count && wanted() < end; ++next) {
      rows.add_row(all.rows(wanted() - first_row, wanted() - first_row + 1));
    }
  }
  return rows;
}

std::shared_ptr<const RowList> PackedValidation::chosen(int64_t count) const {
  const std::scoped_lock lock(mutex_);
  if (chosen_ == nullptr || chosen_->num_rows() != count) chosen_ = std::make_shared<const RowList>(choose(count));
  return chosen_;
}

void PackedValidation::visit(int64_t max_tokens, const RunData::UseBatch& use) const {
  const int64_t all = plan_.num_rows();
  const int64_t count = max_tokens == 0 ? all : std::clamp<int64_t>(max_tokens / plan_.context(), 1, all);
  if (count < all) {
    use_rows(*chosen(count), use);
    return;
  }
  for (int64_t block = 0; block < plan_.num_blocks(); ++block) {
    if (!use_rows(plan_.block(block), use)) return;
  }
}

bool PackedValidation::use_rows(const RowList& rows, const RunData::UseBatch& use) const {
  for (int64_t first = 0; first < rows.num_rows(); first += batch_rows_) {
    const int64_t last = std::min(first + batch_rows_, rows.num_rows());
    if (!use(make_packed_batch(*shards_, rows.rows(first, last), batch_rows_, plan_.context(),
                               batch_rows_ * plan_.seqs_per_row())))
      return false;
  }
  return true;
}

}  // namespace gradmill
