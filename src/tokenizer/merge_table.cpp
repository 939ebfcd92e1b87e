// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/merge_table.h"

#include <bit>

namespace gradmill {

MergeTable::MergeTable(const std::vector<Merge>& merges) {
  const size_t capacity = std::bit_ceil(merges.size() * 2 + 2);
  shift_ = 64 - std::countr_zero(capacity);
  entries_.resize(capacity);
  for (const Merge& merge : merges) {
    const uint64_t pair = key(merge.left, merge.right);
    entries_[slot(pair)] = {pair, merge.rank, merge.merged};
  }
}

}  // namespace gradmill
