// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/epoch_order.h"

#include <algorithm>
#include <numeric>

#include "core/rng.h"

namespace gradmill {
namespace {

constexpr int64_t kBlockStream = 0;  // the rows of block b use stream b + 1

}  // namespace

std::vector<int32_t> shuffled(int64_t count, uint64_t seed, int64_t epoch, int64_t stream) {
  std::vector<int32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) {
    const RandomBlock words = philox(seed, {static_cast<uint32_t>(i), static_cast<uint32_t>(stream),
                                            static_cast<uint32_t>(epoch), RngSite::kShuffle});
    // The remainder of 64 bits favours some values by at most 2^-33.
    std::swap(order[i - 1], order[(uint64_t{words[1]} << 32 | words[0]) % i]);
  }
  return order;
}

EpochOrder::EpochOrder(const PackPlan& plan, uint64_t seed, int64_t epoch, bool shuffle)
    : plan_(plan), seed_(seed), epoch_(epoch), shuffle_(shuffle) {
  blocks_.resize(static_cast<size_t>(plan.num_blocks()));
  if (shuffle) {
    blocks_ = shuffled(plan.num_blocks(), seed, epoch, kBlockStream);
  } else {
    std::iota(blocks_.begin(), blocks_.end(), 0);
  }
  first_row_.reserve(blocks_.size());
  int64_t row = 0;
  for (int32_t block : blocks_) {
    first_row_.push_back(row);
    row += plan.num_rows(block);
  }
}

EpochOrder::Place EpochOrder::locate(int64_t index) const {
  const auto at = std::upper_bound(first_row_.begin(), first_row_.end(), index) - 1;
  return {blocks_[static_cast<size_t>(at - first_row_.begin())], index - *at};
}

RowList EpochOrder::block_rows(int64_t block) const {
  RowList rows = plan_.block(block);
  if (!shuffle_) return rows;
  return in_order(rows, shuffled(rows.num_rows(), seed_, epoch_, block + 1));
}

}  // namespace gradmill
