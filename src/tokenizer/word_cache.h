// SPDX-License-Identifier: Apache-2.0
// A cache for the ids of words. It has a fixed size: a new word replaces an old one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace gradmill {

class WordCache {
 public:
  WordCache() : slots_(kNumSlots) {}

  static bool can_hold(std::string_view word) { return !word.empty() && word.size() <= kMaxBytes; }

  // Empty if the word is not in the cache. Requires can_hold(word).
  std::span<const TokenId> find(std::string_view word) const {
    const Slot& slot = slots_[index(word)];
    if (slot.num_bytes != word.size() || std::memcmp(slot.bytes.data(), word.data(), word.size()) != 0) return {};
    return {slot.ids.data(), slot.num_ids};
  }
  // Words with too many tokens are not stored.
  void insert(std::string_view word, std::span<const TokenId> ids) {
    if (ids.empty() || ids.size() > kMaxIds) return;
    Slot& slot = slots_[index(word)];
    slot.num_bytes = static_cast<uint8_t>(word.size());
    slot.num_ids = static_cast<uint8_t>(ids.size());
    std::copy(word.begin(), word.end(), slot.bytes.begin());
    std::copy(ids.begin(), ids.end(), slot.ids.begin());
  }

 private:
  static constexpr size_t kNumSlots = 1 << 16;  // 4 MiB
  static constexpr size_t kMaxBytes = 30, kMaxIds = 8;

  struct alignas(64) Slot {  // one cache line
    uint8_t num_bytes = 0, num_ids = 0;
    std::array<char, kMaxBytes> bytes;
    std::array<TokenId, kMaxIds> ids;
  };
  static_assert(sizeof(Slot) == 64);

  static size_t index(std::string_view word) { return std::hash<std::string_view>{}(word) % kNumSlots; }

  std::vector<Slot> slots_;
};

}  // namespace gradmill
