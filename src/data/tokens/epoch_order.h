// SPDX-License-Identifier: Apache-2.0
// The order of a PackPlan's rows within an epoch: the blocks in random order, then the rows of each block.
#pragma once

#include <cstdint>
#include <vector>

#include "data/tokens/pack.h"

namespace gradmill {

// 0 to count - 1 in an order that depends only on the arguments; all orders are equally likely. `stream` distinguishes
// the orders within one epoch.
std::vector<int32_t> shuffled(int64_t count, uint64_t seed, int64_t epoch, int64_t stream);

class EpochOrder {
 public:
  // `plan` must outlive this object. Without shuffling, blocks are in the order of the shards.
  EpochOrder(const PackPlan& plan, uint64_t seed, int64_t epoch, bool shuffle);

  struct Place {
    int64_t block, row;  // a block of the plan, and a row in the order of block_rows()
  };
  // The position of the epoch's row `index`, in [0, plan.num_rows()). Consecutive rows are in one block until its end.
  Place locate(int64_t index) const;
  // The rows of the block in this epoch's order.
  RowList block_rows(int64_t block) const;

 private:
  const PackPlan& plan_;
  uint64_t seed_;
  int64_t epoch_;
  bool shuffle_;
  std::vector<int32_t> blocks_;     // in the order of this epoch
  std::vector<int64_t> first_row_;  // index of each block's first row in the epoch
};

}  // namespace gradmill
