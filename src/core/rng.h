// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3").
// A number is a pure function of where it is used, so there is no state to save, no order to keep, and
// any step can be replayed.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace gradmill {

using RandomBlock = std::array<uint32_t, 4>;

// Which use of randomness this is; stable across releases, so that runs can be replayed.
// Sites of layer l are kLayerSites + l * kSitesPerLayer + {attention, attention output, mlp output}.
struct RngSite {
  static constexpr uint32_t kInit = 1;
  static constexpr uint32_t kShuffle = 2;
  static constexpr uint32_t kSample = 3;
  static constexpr uint32_t kEmbedding = 4;
  static constexpr uint32_t kLayerSites = 64;
  static constexpr uint32_t kSitesPerLayer = 8;
};

inline RandomBlock philox(uint64_t seed, const RandomBlock& counter) {
  constexpr uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u, kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  RandomBlock c = counter;
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
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

// The words of a dropout or sampling site: columns 4j .. 4j+3 of one token's row in one step.
// `token` is the row's index in the whole effective batch, so the split into micro-batches does not matter.
inline RandomBlock random_words(uint64_t seed, uint32_t site, uint32_t step, uint32_t token, uint32_t column_block) {
  return philox(seed, {column_block, token, step, site});
}

// A word is dropped when it lies under this threshold.
inline uint32_t drop_threshold(float probability) { return static_cast<uint32_t>(double(probability) * 4294967296.0); }

}  // namespace gradmill
