// SPDX-License-Identifier: Apache-2.0
// The mask of kept attention weights, in the layout of mma accumulators. One Philox call decides eight neighbouring
// keys of one query, of which a lane holds one or two. So lanes share their calls: each makes one call per eight of its
// own elements (about 9 instructions per element), and then they exchange bits.
#pragma once

#include "cuda/philox.cuh"
#include "ops/attention/flash_params.cuh"

namespace gradmill::flash {

struct Dropout : cuda::DropoutRule {
  template <class N>
  __device__ explicit Dropout(const Params<N>& p)
      : cuda::DropoutRule(p.scalars == nullptr ? cuda::DropoutRule() : cuda::DropoutRule(*p.scalars, p.site)) {}
  __device__ Dropout(const StepScalars& scalars, uint32_t rng_site) : cuda::DropoutRule(scalars, rng_site) {}

  __device__ bool on() const { return threshold != 0; }
  // Bit i tells whether column 8 * block + i of this row of the micro-batch is kept.
  __device__ uint32_t keep_eight(uint32_t row, uint32_t block) const {
    const uint4 all = words(row, block);
    const uint32_t four[4] = {all.x, all.y, all.z, all.w}, limit = threshold << 16;
    uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (four[i] << 16 >= limit) bits |= 1u << (2 * i);
      if (four[i] >= limit) bits |= 2u << (2 * i);
    }
    return bits;
  }
};

// Exchanges bits between lanes whose numbers differ in `distance`. The lane without that bit gives the bits `low` <<
// shift, and gets the other lane's bits `low` in their place.
__device__ inline uint32_t exchange_bits(uint32_t bits, uint32_t distance, uint32_t low, uint32_t shift) {
  const uint32_t other = __shfl_xor_sync(0xffffffffu, bits, distance);
  return threadIdx.x & distance ? (bits & ~low) | (other >> shift & low) : (bits & low) | (other & low) << shift;
}

// Compiles to one instruction for a constant bit; a shift would not.
__device__ inline bool has_bit(uint32_t bits, int bit) { return (bits & 1u << bit) != 0; }

// For accumulators whose rows are queries: kTiles tiles of 16 queries x 8 keys side by side. `row` is the coordinate of
// the first query; `column`, a multiple of 8, that of the first key.
__host__ __device__ inline constexpr int query_row_bit(int tile, int element) {
  return tile / 4 * 16 + element / 2 * 8 + tile % 4 * 2 + element % 2;
}
template <int kTiles>
__device__ uint32_t keep_query_rows(const Dropout& dropout, uint32_t row, uint32_t column) {
  static_assert(kTiles == 4 || kTiles == 8);
  const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  uint32_t bits = 0;
  // Each lane of a quad makes the calls for one of four tiles, for both rows of the quad.
#pragma unroll
  for (uint32_t i = 0; i < kTiles / 2; ++i) {
    bits |= dropout.keep_eight(row + g + i % 2 * 8, column / 8 + i / 2 * 4 + t) << (8 * i);
  }
  bits = exchange_bits(bits, 2, 0x0f0f0f0fu, 4);
  return exchange_bits(bits, 1, 0x33333333u, 2);
}

// For accumulators whose rows are keys: strips of 16 keys, each with kTiles tiles of 16 keys x 8 queries side by side.
// `columns` are the coordinates of the strips' first keys, multiples of 8.
template <int kTiles>
__host__ __device__ inline constexpr int key_row_bit(int strip, int tile, int element) {
  return (strip * kTiles + tile) * 4 + element;
}
template <int kTiles, int kStrips>
__device__ uint32_t keep_key_rows(const Dropout& dropout, uint32_t row, const uint32_t (&columns)[kStrips]) {
  static_assert(kTiles % 2 == 0 && kTiles * kStrips <= 8);
  const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  uint32_t bits = 0;
  // A lane and the lanes with the other rows of its columns have 4 queries and 16 keys of two tiles, which take eight
  // calls, one per lane. Lane g makes the call that becomes bit g.
  const uint32_t query = row + g / 4 * 8 + 2 * t + g % 2, block = g / 2 % 2;
#pragma unroll
  for (uint32_t i = 0; i < kStrips * kTiles / 2; ++i) {
    const uint32_t strip = i / (kTiles / 2), pair = i % (kTiles / 2);
    bits |= dropout.keep_eight(query + 16 * pair, columns[strip] / 8 + block) << (8 * i);
  }
  bits = exchange_bits(bits, 16, 0x0f0f0f0fu, 4);
  bits = exchange_bits(bits, 8, 0x33333333u, 2);
  return exchange_bits(bits, 4, 0x55555555u, 1);
}

}  // namespace gradmill::flash
