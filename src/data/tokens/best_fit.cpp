// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/best_fit.h"

#include <bit>
#include <cstddef>

namespace gradmill {
namespace {

// A set of numbers below `size`. Each level has one bit for every non-zero word of the level below, so that the next
// larger member is found in a few steps.
class NumberSet {
 public:
  explicit NumberSet(size_t size) {
    do {
      size = (size + 63) / 64;
      levels_.emplace_back(size, 0);
    } while (size > 1);
  }

  void insert(size_t number) {
    for (auto& level : levels_) {
      level[number / 64] |= uint64_t{1} << number % 64;
      number /= 64;
    }
  }

  void erase(size_t number) {
    for (auto& level : levels_) {
      level[number / 64] &= ~(uint64_t{1} << number % 64);
      if (level[number / 64] != 0) return;
      number /= 64;
    }
  }

  // The smallest member that is at least `number`, or -1.
  int64_t at_least(size_t number) const {
    for (size_t l = 0; l < levels_.size() && number / 64 < levels_[l].size(); ++l) {
      if (const uint64_t rest = levels_[l][number / 64] >> number % 64; rest != 0) {
        number += static_cast<size_t>(std::countr_zero(rest));
        while (l-- > 0) number = number * 64 + static_cast<size_t>(std::countr_zero(levels_[l][number]));
        return static_cast<int64_t>(number);
      }
      number = number / 64 + 1;
    }
    return -1;
  }

 private:
  std::vector<std::vector<uint64_t>> levels_;
};

struct Bin {
  int32_t room, items, next;  // next: another bin with the same remaining space, or -1
};

// The open bins, sorted by their remaining space.
class OpenBins {
 public:
  OpenBins(int32_t capacity, int32_t max_items)
      : capacity_(capacity),
        max_items_(max_items),
        rooms_(static_cast<size_t>(capacity) + 1),
        first_(static_cast<size_t>(capacity) + 1, -1) {}

  int32_t put(int32_t length) {
    int32_t bin = take(length);
    if (bin < 0) {
      bin = num_bins();
      bins_.push_back({capacity_, 0, -1});
    }
    Bin& chosen = bins_[static_cast<size_t>(bin)];
    chosen.room -= length;
    if (++chosen.items < max_items_ && chosen.room > 0) {
      int32_t& first = first_[static_cast<size_t>(chosen.room)];
      if (first < 0) rooms_.insert(static_cast<size_t>(chosen.room));
      chosen.next = first;
      first = bin;
    }
    return bin;
  }
  int32_t num_bins() const { return static_cast<int32_t>(bins_.size()); }

 private:
  // Removes and returns the bin that fits best, or -1 if none fits.
  int32_t take(int32_t length) {
    const int64_t room = rooms_.at_least(static_cast<size_t>(length));
    if (room < 0) return -1;
    int32_t& first = first_[static_cast<size_t>(room)];
    const int32_t bin = first;
    first = bins_[static_cast<size_t>(bin)].next;
    if (first < 0) rooms_.erase(static_cast<size_t>(room));
    return bin;
  }

  int32_t capacity_, max_items_;
  NumberSet rooms_;
  std::vector<int32_t> first_;  // by remaining space: a bin, or -1
  std::vector<Bin> bins_;
};

// Indices by descending length, in stable order: a counting sort.
std::vector<int32_t> by_falling_length(std::span<const int32_t> lengths, int32_t capacity) {
  std::vector<int32_t> begin(static_cast<size_t>(capacity) + 1, 0);
  for (int32_t length : lengths) ++begin[static_cast<size_t>(capacity - length) + 1];
  for (size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
  std::vector<int32_t> order(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) {
    order[static_cast<size_t>(begin[static_cast<size_t>(capacity - lengths[i])]++)] = static_cast<int32_t>(i);
  }
  return order;
}

}  // namespace

BinPacking best_fit_decreasing(std::span<const int32_t> lengths, int32_t capacity, int32_t max_items) {
  BinPacking result;
  result.bin_of.resize(lengths.size());
  OpenBins bins(capacity, max_items);
  for (int32_t index : by_falling_length(lengths, capacity)) {
    result.bin_of[static_cast<size_t>(index)] = bins.put(lengths[static_cast<size_t>(index)]);
  }
  result.num_bins = bins.num_bins();
  return result;
}

}  // namespace gradmill
