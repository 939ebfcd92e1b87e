// SPDX-License-Identifier: Apache-2.0
// The order in which an epoch goes through a PackPlan: its blocks in a random order, then the rows of each.
#pragma once

#include <cstdint>
#include <vector>

#include "data/tokens/pack.h"

namespace gradmill {

// 0 to count - 1 in an order that depends on the arguments alone; all orders are equally likely. `stream` tells apart
// the orders of one epoch.
std::vector<int32_t> shuffled(int64_t count, uint64_t seed, int64_t epoch, int64_t stream);

class EpochOrder {
 public:
  // `plan` must outlive it. With no shuffling, blocks come in the order of the shards.
  EpochOrder(const PackPlan& plan, uint64_t seed, int64_t epoch, bool shuffle);

  struct Place {
    int64_t block, row;  // a block of the plan; a row in the order of block_rows()
  };
  // Where the epoch's row `index` is, in [0, plan.num_rows()). Consecutive ones lie in one block until its end.
  Place locate(int64_t index) const;
  // The block's rows in this epoch's order.
  RowList block_rows(int64_t block) const;

 private:
  const PackPlan& plan_;
  uint64_t seed_;
  int64_t epoch_;
  bool shuffle_;
  std::vector<int32_t> blocks_;     // in this epoch's order
  std::vector<int64_t> first_row_;  // of each of them, in the epoch
};

}  // namespace gradmill
