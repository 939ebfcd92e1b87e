// SPDX-License-Identifier: Apache-2.0
// Which pairs of tokens merge, with which rank, and into which token.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace gradmill {

struct Merge {
  TokenId left, right, merged;
  uint32_t rank;  // lower ranks merge first; among equals, the leftmost pair
};

inline constexpr uint32_t kNoMerge = 0xFFFFFFFF;

// A hash table with open addressing. The lookup is the inner loop of encoding, and std::unordered_map would follow two
// pointers per lookup.
class MergeTable {
 public:
  struct Entry {
    uint64_t pair = ~uint64_t{0};  // not a pair of valid ids
    uint32_t rank = kNoMerge;
    TokenId merged = -1;
  };

  // The later of two equal pairs counts, as in Hugging Face's library. Ranks must be below kNoMerge.
  explicit MergeTable(const std::vector<Merge>& merges);

  // The rank is kNoMerge if the pair does not merge.
  Entry find(TokenId left, TokenId right) const { return entries_[slot(key(left, right))]; }

 private:
  static uint64_t key(TokenId left, TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot(uint64_t pair) const {
    size_t i = (pair * 0x9E3779B97F4A7C15) >> shift_;
    while (entries_[i].pair != pair && entries_[i].rank != kNoMerge) i = (i + 1) & (entries_.size() - 1);
    return i;
  }

  int shift_ = 0;
  std::vector<Entry> entries_;  // the size is a power of two, at most half full
};

}  // namespace gradmill
