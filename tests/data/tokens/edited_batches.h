// SPDX-License-Identifier: Apache-2.0
// An edit of micro-batches to test with, and what all ranks together must give after it.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "data/batch.h"

namespace gradmill::test {

// Keeps some targets, chosen by step and place in the effective batch, as masked training does.
inline void keep_some_targets(int64_t step, MicroBatch& batch) {
  batch.num_targets = 0;
  for (size_t row = 0; row < batch.targets.size(); ++row) {
    const uint64_t place = static_cast<uint64_t>(batch.token_base) + row + 1000003 * static_cast<uint64_t>(step);
    if (place * 2654435761u % 7 >= 2) batch.targets[row] = kIgnoredTarget;
    batch.num_targets += batch.targets[row] == kIgnoredTarget ? 0 : 1;
  }
}

// `ranks` has a step's batch of each rank, `whole` that of a single one.
inline void expect_ranks_share(const std::vector<StepBatch>& ranks, const StepBatch& whole) {
  const auto rows_of = [](const std::vector<StepBatch>& batches) {
    std::map<int64_t, std::pair<int32_t, int32_t>> rows;  // token and target by place
    for (const StepBatch& batch : batches) {
      for (const MicroBatch& micro : batch.micro) {
        for (int32_t row = 0; row < micro.cu_seqlens.back(); ++row) {
          const auto at = static_cast<size_t>(row);
          EXPECT_TRUE(rows.emplace(micro.token_base + row, std::pair(micro.tokens[at], micro.targets[at])).second);
        }
      }
    }
    return rows;
  };
  const auto all = rows_of({whole});
  EXPECT_EQ(rows_of(ranks), all);
  int64_t targets = 0;
  for (const auto& [place, row] : all) targets += row.second == kIgnoredTarget ? 0 : 1;
  EXPECT_EQ(whole.num_targets, targets);
  EXPECT_EQ(whole.tokens(), std::ssize(all));
  for (const StepBatch& batch : ranks) {
    EXPECT_EQ(batch.step, whole.step);
    EXPECT_EQ(batch.divisor(), whole.divisor());
    EXPECT_EQ(batch.tokens(), whole.tokens());
  }
}

}  // namespace gradmill::test
