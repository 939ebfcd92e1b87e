// SPDX-License-Identifier: Apache-2.0
// Best-fit-decreasing bin packing of lengths that are small whole numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gradmill {

// Assigns a bin to each length. Lengths are in [1, capacity]; a bin takes at most max_items of them. Lengths are placed
// in descending order, each into the bin with the least remaining space that still fits it. Depends only on the
// arguments. Takes O(lengths + capacity) time.
struct BinPacking {
  std::vector<int32_t> bin_of;
  int32_t num_bins = 0;
};
BinPacking best_fit_decreasing(std::span<const int32_t> lengths, int32_t capacity, int32_t max_items);

}  // namespace gradmill
