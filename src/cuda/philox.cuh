// SPDX-License-Identifier: Apache-2.0
// The Philox of core/rng.h on the device: the same words at the same coordinates.
#pragma once

#include <cstdint>

#include "core/step_scalars.h"

namespace gradmill::cuda {

__device__ inline uint4 philox(uint64_t seed, uint4 c) {
  constexpr uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u, kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = __umulhi(kMul0, c.x), low0 = kMul0 * c.x;
    const uint32_t high1 = __umulhi(kMul1, c.z), low1 = kMul1 * c.z;
    c = make_uint4(high1 ^ c.y ^ key0, low1, high0 ^ c.w ^ key1, low0);
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return c;
}

// The words of columns 4j .. 4j+3 of one token's row: random_words() of core/rng.h. `row` counts within the micro-batch.
__device__ inline uint4 random_words(const StepScalars& scalars, uint32_t site, uint32_t row, uint32_t column_block) {
  return philox(scalars.seed, make_uint4(column_block, scalars.token_base + row, scalars.step, site));
}

// As core/rng.h computes it on the host, in double.
__device__ inline uint32_t drop_threshold(float probability) {
  return static_cast<uint32_t>(static_cast<double>(probability) * 4294967296.0);
}

}  // namespace gradmill::cuda
