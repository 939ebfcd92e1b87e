// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/best_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

namespace gradmill::test {
namespace {

// The number of bins by a direct, quadratic implementation of the rule. Without a limit on items, bins with equal
// remaining space are equivalent.
int32_t bins_by_the_rule(std::vector<int32_t> lengths, int32_t capacity) {
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  std::vector<int32_t> rooms;
  for (int32_t length : lengths) {
    int32_t* best = nullptr;
    for (int32_t& room : rooms) {
      if (room >= length && (best == nullptr || room < *best)) best = &room;
    }
    if (best == nullptr) best = &rooms.emplace_back(capacity);
    *best -= length;
  }
  return static_cast<int32_t>(rooms.size());
}

TEST(BestFit, BinsHoldWhatTheyMay) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const auto capacity = static_cast<int32_t>(1 + random() % (round % 3 == 0 ? 10000 : 100));
    const auto max_items = static_cast<int32_t>(1 + random() % 9);
    std::vector<int32_t> lengths(random() % 200);
    for (int32_t& length : lengths) length = static_cast<int32_t>(1 + random() % static_cast<uint32_t>(capacity));
    const BinPacking packing = best_fit_decreasing(lengths, capacity, max_items);
    ASSERT_EQ(packing.bin_of.size(), lengths.size());
    std::vector<int64_t> used(static_cast<size_t>(packing.num_bins)), items(used.size());
    for (size_t i = 0; i < lengths.size(); ++i) {
      used.at(static_cast<size_t>(packing.bin_of[i])) += lengths[i];
      ++items[static_cast<size_t>(packing.bin_of[i])];
    }
    for (size_t bin = 0; bin < used.size(); ++bin) {
      ASSERT_GE(items[bin], 1);
      ASSERT_LE(items[bin], max_items);
      ASSERT_LE(used[bin], capacity);
    }
  }
}

TEST(BestFit, FollowsTheRule) {
  std::mt19937 random(6);
  for (int32_t capacity : {1, 2, 63, 64, 65, 127, 128, 4095, 4096, 4097, 70000}) {
    std::vector<int32_t> lengths(400);
    for (int32_t& length : lengths) length = static_cast<int32_t>(1 + random() % static_cast<uint32_t>(capacity));
    EXPECT_EQ(best_fit_decreasing(lengths, capacity, 1 << 20).num_bins, bins_by_the_rule(lengths, capacity))
        << capacity;
  }
}

TEST(BestFit, FillsExactly) {
  const std::vector<int32_t> lengths = {3, 7, 5, 5, 10, 1, 9};
  const BinPacking packing = best_fit_decreasing(lengths, 10, 10);
  EXPECT_EQ(packing.num_bins, 4);
  EXPECT_EQ(packing.bin_of[0], packing.bin_of[1]);
  EXPECT_EQ(packing.bin_of[2], packing.bin_of[3]);
  EXPECT_EQ(packing.bin_of[5], packing.bin_of[6]);
  EXPECT_EQ(best_fit_decreasing({}, 10, 10).num_bins, 0);
}

}  // namespace
}  // namespace gradmill::test
