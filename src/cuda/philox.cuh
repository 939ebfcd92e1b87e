// SPDX-License-Identifier: Apache-2.0
// Philox on the device: the same words for the same counters as core/rng.h.
#pragma once

#include <cstdint>

#include "core/rng.h"
#include "core/step_scalars.h"
#include "cuda/rounded.cuh"

namespace gradmill::cuda {

// Compiles to one instruction. For the 64-bit product of C++, the compiler adds zeros to the upper half.
__device__ inline uint64_t multiply_wide(uint32_t a, uint32_t b) {
  uint64_t product;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
}

__device__ inline uint4 philox(uint64_t seed, uint4 c) {
  constexpr uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u, kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = multiply_wide(kMul0, c.x), product1 = multiply_wide(kMul1, c.z);
    c = make_uint4(static_cast<uint32_t>(product1 >> 32) ^ c.y ^ key0, static_cast<uint32_t>(product1),
                   static_cast<uint32_t>(product0 >> 32) ^ c.w ^ key1, static_cast<uint32_t>(product0));
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return c;
}

// The random words for columns 8j .. 8j+7 of one row, as random_words() in core/rng.h. `row` is the index in the
// micro-batch.
__device__ inline uint4 random_words(const StepScalars& scalars, uint32_t site, uint32_t row, uint32_t column_block) {
  return philox(scalars.seed, make_uint4(column_block, scalars.token_base + row, scalars.step, site));
}

// The same result as core/rng.h on the host.
__device__ inline uint32_t drop_threshold(float probability) {
  return min(__float2uint_rn(probability * 65536.0f), 65535u);
}
// Gives the same bits as a division, because 65536 is a power of two.
__device__ inline float drop_scale(uint32_t threshold) {
  return 65536.0f * rounded_reciprocal(static_cast<float>(65536 - threshold));
}

// What a dropout site drops in this step, and the factor for the elements it keeps. Same definition as core/rng.h.
struct DropoutRule {
  uint64_t seed = 0;
  uint32_t token_base = 0, step = 0, site = 0;
  uint32_t threshold = 0;  // 0: no element is dropped
  float scale = 1;

  DropoutRule() = default;
  // A negative probability means the one in the scalars.
  __device__ DropoutRule(const StepScalars& scalars, uint32_t rng_site, float probability = -1)
      : seed(scalars.seed),
        token_base(scalars.token_base),
        step(scalars.step),
        site(rng_site),
        threshold(drop_threshold(probability < 0 ? scalars.dropout : probability)),
        scale(drop_scale(threshold)) {}

  // The words for columns 8 * block .. 8 * block + 7 of a row of the micro-batch.
  __device__ uint4 words(uint32_t row, uint32_t block) const {
    return philox(seed, make_uint4(block, token_base + row, step, site));
  }
  // Whether column i of the eight is kept.
  __device__ bool keeps(const uint4& words, int i) const {
    const uint32_t word = i / 2 == 0 ? words.x : i / 2 == 1 ? words.y : i / 2 == 2 ? words.z : words.w;
    return (i % 2 ? word >> 16 : word & 0xffff) >= threshold;
  }
  // Takes two neighbouring 16-bit elements and zeroes those that are dropped according to their word.
  __device__ uint32_t kept(uint32_t pair, uint32_t word) const {
    const uint32_t limit = threshold << 16;
    if (word << 16 < limit) pair &= 0xffff0000u;
    if (word < limit) pair &= 0xffffu;
    return pair;
  }
};

}  // namespace gradmill::cuda
