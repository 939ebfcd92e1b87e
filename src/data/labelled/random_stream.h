// SPDX-License-Identifier: Apache-2.0
// Random numbers for one purpose, one example and one epoch.
#pragma once

#include <cstdint>

#include "core/rng.h"

namespace gradmill {

class RandomStream {
 public:
  // `site` is the purpose: see core/rng.h.
  RandomStream(uint64_t seed, uint32_t site, int64_t epoch, int64_t example)
      : seed_(seed), counter_{0, static_cast<uint32_t>(example), static_cast<uint32_t>(epoch), site} {}

  uint32_t bits() {
    if (used_ == words_.size()) {
      words_ = philox(seed_, counter_);
      ++counter_[0];
      used_ = 0;
    }
    return words_[used_++];
  }
  // In [0, 1).
  double uniform() { return bits() * 0x1p-32; }
  bool chance(double probability) { return uniform() < probability; }
  // In [0, count), where count is in [1, 2^32).
  size_t below(size_t count) { return static_cast<size_t>(uint64_t{bits()} * count >> 32); }
  // A whole number with the expectation `mean`: one of its two neighbours.
  size_t around(double mean) { return static_cast<size_t>(mean + uniform()); }

 private:
  uint64_t seed_;
  RandomBlock counter_;
  RandomBlock words_ = {};
  size_t used_ = 4;
};

}  // namespace gradmill
