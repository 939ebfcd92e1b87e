// SPDX-License-Identifier: Apache-2.0
// Which attention weights are kept, in the layout of mma accumulators. A Philox call decides about four neighbouring
// keys of one query, of which a lane holds one or two: lanes share their calls, so that each makes one for four of its
// own elements (about 10 instructions an element, against 25 when each lane keeps what it needs and drops the rest).
#pragma once

#include "cuda/philox.cuh"
#include "ops/flash_params.cuh"

namespace gradmill::flash {

struct Dropout {
  bool on = false;
  uint64_t seed = 0;
  uint32_t site = 0, step = 0, token_base = 0, threshold = 0;
  float scale = 1;  // of kept weights

  template <class N>
  __device__ explicit Dropout(const Params<N>& p) {
    if (p.scalars == nullptr || p.scalars->dropout == 0) return;
    on = true;
    seed = p.scalars->seed;
    site = p.site;
    step = p.scalars->step;
    token_base = p.scalars->token_base;
    threshold = cuda::drop_threshold(p.scalars->dropout);
    scale = 1.0f / (1.0f - p.scalars->dropout);
  }

  // Bit i: whether column 4 * block + i of this row of the micro-batch is kept.
  __device__ uint32_t keep_four(uint32_t row, uint32_t block) const {
    const uint4 words = cuda::philox(seed, make_uint4(block, token_base + row, step, site));
    return uint32_t(words.x >= threshold) | uint32_t(words.y >= threshold) << 1 | uint32_t(words.z >= threshold) << 2 |
           uint32_t(words.w >= threshold) << 3;
  }
  __device__ uint32_t keep_one(uint32_t row, uint32_t column) const {
    return keep_four(row, column / 4) >> (column % 4) & 1;
  }
};

// Accumulators whose rows are queries: kTiles tiles of 16 queries x 8 keys side by side. `row` is the first query's,
// `column` the first key's coordinate. Bit 4j + e of the result is for element e of tile j.
template <int kTiles>
__device__ uint32_t keep_query_rows(const Dropout& dropout, uint32_t row, uint32_t column) {
  static_assert(kTiles <= 8);
  const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  uint32_t bits = 0;
  if (column % 4 == 0) {
    // The even lane of a pair asks for row g, the odd one for row g + 8.
    const uint32_t mine = row + g + t % 2 * 8, block = column / 4 + t / 2;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) bits |= dropout.keep_four(mine, block + 2 * j) << (4 * j);
    const uint32_t other = __shfl_xor_sync(0xffffffffu, bits, 1);
    const bool odd = t % 2 != 0;
    const uint32_t upper = odd ? other >> 2 : bits, lower = odd ? bits >> 2 : other;
    return (upper & 0x33333333u) | (lower & 0x33333333u) << 2;
  }
#pragma unroll 1
  for (uint32_t i = 0; i < 4 * kTiles; ++i) {
    bits |= dropout.keep_one(row + g + i / 2 % 2 * 8, column + i / 4 * 8 + 2 * t + i % 2) << i;
  }
  return bits;
}

// Accumulators whose rows are keys: kTiles tiles of 16 keys x 8 queries side by side.
template <int kTiles>
__device__ uint32_t keep_key_rows(const Dropout& dropout, uint32_t row, uint32_t column) {
  static_assert(kTiles <= 8);
  const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  uint32_t bits = 0;
  if (column % 4 == 0) {
    // Four lanes with neighbouring keys ask for one element of the four each; then a 4 x 4 transposition of bits
    // gives each of them its key's.
    const uint32_t i = g % 4, block = column / 4 + g / 4 + i / 2 * 2, mine = row + 2 * t + i % 2;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) bits |= dropout.keep_four(mine + 8 * j, block) << (4 * j);
    const uint32_t far = __shfl_xor_sync(0xffffffffu, bits, 8);
    bits = i & 2 ? (bits & 0xccccccccu) | (far & 0xccccccccu) >> 2 : (bits & 0x33333333u) | (far & 0x33333333u) << 2;
    const uint32_t near = __shfl_xor_sync(0xffffffffu, bits, 4);
    return i & 1 ? (bits & 0xaaaaaaaau) | (near & 0xaaaaaaaau) >> 1 : (bits & 0x55555555u) | (near & 0x55555555u) << 1;
  }
#pragma unroll 1
  for (uint32_t i = 0; i < 4 * kTiles; ++i) {
    bits |= dropout.keep_one(row + i / 4 * 8 + 2 * t + i % 2, column + g + i / 2 % 2 * 8) << i;
  }
  return bits;
}

}  // namespace gradmill::flash
