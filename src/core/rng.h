// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: Philox4x32-7 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3").
// A number is a pure function of where it is used. So there is no state to save and no order to keep, and any step can
// be replayed.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace gradmill {

using RandomBlock = std::array<uint32_t, 4>;

// The places that use random numbers. The values are stable across releases, so that runs can be replayed. All of them
// are listed here in ascending order, so that no two are equal.
struct RngSite {
  static constexpr uint32_t kInit = 1;
  static constexpr uint32_t kShuffle = 2;
  static constexpr uint32_t kSample = 3;
  static constexpr uint32_t kEmbedding = 4;
  static constexpr uint32_t kClassifier = 5;
  static constexpr uint32_t kMask = 6;
  // Augmentation. Augmentations of words also use the next number, for the second text of a pair.
  static constexpr uint32_t kSynonyms = 16;
  static constexpr uint32_t kSwap = 18;
  static constexpr uint32_t kDeletion = 20;
  static constexpr uint32_t kSpanMask = 22;
  static constexpr uint32_t kTokenDropout = 23;
  // Layer l has kLayerSites + l * kSitesPerLayer + {attention, attention output, mlp output, relative positions}.
  static constexpr uint32_t kLayerSites = 64;
  static constexpr uint32_t kSitesPerLayer = 8;
  static constexpr uint32_t kRelativeInLayer = 3;
  static constexpr uint32_t kAdapterSites = 1u << 24;  // plus the parameter that the adapter belongs to
};

// Seven is the fewest rounds with which Philox4x32 passes BigCrush (Salmon et al. 2011). Its authors recommend ten for
// a safety margin, which is not needed here: the numbers only decide dropout, order and initial values.
inline constexpr int kPhiloxRounds = 7;

inline RandomBlock philox(uint64_t seed, const RandomBlock& counter) {
  constexpr uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u, kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  RandomBlock c = counter;
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{kMul0} * c[0];
    const uint64_t product1 = uint64_t{kMul1} * c[2];
    c = {static_cast<uint32_t>(product1 >> 32) ^ c[1] ^ key0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ c[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return c;
}

// Uniform in [0, 1) with 24 bits.
inline float to_uniform(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// Two independent standard normal values from two words (Box-Muller).
inline std::array<float, 2> to_normal(uint32_t a, uint32_t b) {
  const float radius = std::sqrt(-2.0f * std::log((static_cast<float>(a >> 8) + 0.5f) * 0x1p-24f));
  const float angle = 6.2831853071795864f * to_uniform(b);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// The random words of a dropout or sampling site for one row in one step. Dropout uses them for columns 8j .. 8j+7, 16
// bits each (see keeps). `token` is the index of the row in the whole effective batch, so the result does not depend on
// the split into micro-batches.
inline RandomBlock random_words(uint64_t seed, uint32_t site, uint32_t step, uint32_t token, uint32_t column_block) {
  return philox(seed, {column_block, token, step, site});
}

// An element is dropped for this many of the 65536 equally likely 16-bit values, so probabilities are multiples of
// 2^-16.
inline uint32_t drop_threshold(float probability) {
  return std::min(static_cast<uint32_t>(std::nearbyint(probability * 65536.0f)), 65535u);
}

// The factor for the elements that are kept. It uses the rounded probability, so that the expectation is exact.
inline float drop_scale(uint32_t threshold) { return 65536.0f / static_cast<float>(65536 - threshold); }

// Whether column 8j + i is kept, given the words of block j. The low half of a word decides the even columns.
inline bool keeps(const RandomBlock& words, size_t i, uint32_t threshold) {
  return (words[i / 2] >> (16 * (i % 2)) & 0xffff) >= threshold;
}

}  // namespace gradmill
