// SPDX-License-Identifier: Apache-2.0
// What attention kernels for short sequences share: the way of results to memory, and dropout's random words, cheaper
// where a kernel asks for many rows and blocks of columns. Of Philox's seven rounds the first two, and half of the
// third, depend on the row alone or on the block alone: computed once for each, they leave 9 wide products of 14 for a
// pair of them.
#pragma once

#include "cuda/mma.cuh"
#include "ops/attention/flash_dropout.cuh"
#include "ops/attention/flash_tile.cuh"

namespace gradmill::flash {

// Sequences have this many keys and queries at most, heads are at most this wide.
inline constexpr int kShortLen = 256, kShortWidth = 64;

// The same value, which all lanes of the warp have: now the compiler knows it, too.
__device__ inline int uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

// The same value, but what depends on it is computed where it is used and not kept in registers, which are scarce.
__device__ inline int afresh(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

// What all lanes agree on lies in registers of the warp, of which there are more than enough, and branches on it do not
// keep the compiler from mixing what is before and behind.
template <class N>
__device__ Sequence uniform_sequence(const Params<N>& p, int index) {
  Sequence seq(p, index);
  for (int* field : {&seq.q_begin, &seq.q_len, &seq.k_begin, &seq.k_len, &seq.low, &seq.high}) *field = uniform(*field);
  return seq;
}

// Rows of a strip, the unit that a warp works on.
inline constexpr int kStripRows = 16;
inline constexpr uint32_t kStripBytes = kStripRows * kShortWidth * 2;

// A warp writes a strip's accumulators to `rows` rows of `to`, 16 bytes at a time, by way of kStripBytes of shared
// memory that only it uses. In assembly: the compiler takes a plain store of a vector apart.
template <class N>
__device__ void store_strip(uint32_t stage, const float (&acc)[kShortWidth / 8][4], const HeadRows<N>& to, int row,
                            int column, int rows, int cols) {
  using Rows = Tile<kShortWidth>;
  const auto lane = static_cast<uint32_t>(afresh(int(threadIdx.x))) % 32;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kShortWidth / 8; ++n) {
    const uint32_t at = stage + Rows::offset(lane / 4, n) + lane % 4 * 4;
    cuda::store_shared(at, cuda::pack_pair<N>(acc[n][0], acc[n][1]));
    cuda::store_shared(at + 8 * Rows::kRowBytes, cuda::pack_pair<N>(acc[n][2], acc[n][3]));
  }
  __syncwarp();
  constexpr int kRowsAtOnce = 32 / Rows::kChunks;
  const int first = int(lane) / Rows::kChunks, chunk = int(lane) % Rows::kChunks;
  N* const out = to.at(row + first, column + chunk * 8);
  const int left = chunk * 8 < cols ? rows - first : 0;
#pragma unroll
  for (int i = 0; i < kStripRows; i += kRowsAtOnce) {
    const uint4 bits = cuda::load_shared_16(stage + Rows::offset(first + i, chunk));
    if (i < left) {
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(out + i * to.stride), "r"(bits.x), "r"(bits.y),
                   "r"(bits.z), "r"(bits.w)
                   : "memory");
    }
  }
}

struct PhiloxRounds {
  static constexpr uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u, kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  uint32_t key0, key1;  // of the first round

  __device__ explicit PhiloxRounds(uint64_t seed)
      : key0(static_cast<uint32_t>(seed)), key1(static_cast<uint32_t>(seed >> 32)) {}
  __device__ static uint32_t high(uint64_t product) { return static_cast<uint32_t>(product >> 32); }
  __device__ static uint32_t low(uint64_t product) { return static_cast<uint32_t>(product); }
  // Of round r, counted from 0.
  __device__ uint32_t first_key(uint32_t round) const { return key0 + round * kWeyl0; }
  __device__ uint32_t second_key(uint32_t round) const { return key1 + round * kWeyl1; }
};

// What a row of the micro-batch contributes.
__device__ inline uint2 philox_row(const Dropout& rule, uint32_t row) {
  const PhiloxRounds rounds(rule.seed);
  const uint64_t step = cuda::multiply_wide(PhiloxRounds::kMul1, rule.step);
  const uint32_t x = PhiloxRounds::high(step) ^ (rule.token_base + row) ^ rounds.first_key(0);
  const uint64_t product = cuda::multiply_wide(PhiloxRounds::kMul0, x);
  return make_uint2(PhiloxRounds::high(product), PhiloxRounds::low(product));
}

// What a block of eight columns contributes.
__device__ inline uint4 philox_block(const Dropout& rule, uint32_t block) {
  const PhiloxRounds rounds(rule.seed);
  const uint64_t step = cuda::multiply_wide(PhiloxRounds::kMul1, rule.step);
  const uint64_t first = cuda::multiply_wide(PhiloxRounds::kMul0, block);
  const uint32_t z = PhiloxRounds::high(first) ^ rule.site ^ rounds.second_key(0);
  const uint64_t second = cuda::multiply_wide(PhiloxRounds::kMul1, z);
  const uint32_t x = PhiloxRounds::high(second) ^ PhiloxRounds::low(step) ^ rounds.first_key(1);
  const uint64_t third = cuda::multiply_wide(PhiloxRounds::kMul0, x);
  return make_uint4(PhiloxRounds::low(first) ^ rounds.second_key(1), PhiloxRounds::low(second) ^ rounds.first_key(2),
                    PhiloxRounds::high(third) ^ rounds.second_key(2), PhiloxRounds::low(third));
}

// The words of a block of columns of a row: those of Dropout::words().
__device__ inline uint4 philox_words(const Dropout& rule, uint2 row, uint4 block) {
  const PhiloxRounds rounds(rule.seed);
  const uint64_t product = cuda::multiply_wide(PhiloxRounds::kMul1, row.x ^ block.x);
  uint4 c = make_uint4(PhiloxRounds::high(product) ^ block.y, PhiloxRounds::low(product), block.z ^ row.y, block.w);
#pragma unroll
  for (uint32_t round = 3; round < uint32_t{kPhiloxRounds}; ++round) {
    const uint64_t product0 = cuda::multiply_wide(PhiloxRounds::kMul0, c.x);
    const uint64_t product1 = cuda::multiply_wide(PhiloxRounds::kMul1, c.z);
    c = make_uint4(PhiloxRounds::high(product1) ^ c.y ^ rounds.first_key(round), PhiloxRounds::low(product1),
                   PhiloxRounds::high(product0) ^ c.w ^ rounds.second_key(round), PhiloxRounds::low(product0));
  }
  return c;
}

// Bit i: whether column i of the block is kept.
__device__ inline uint32_t keep_eight(const Dropout& rule, const uint4& words) {
  const uint32_t four[4] = {words.x, words.y, words.z, words.w};
#if __CUDA_ARCH__ >= 900
  // Both halves of a word at once: max(half, threshold - 1) - (threshold - 1), but at most 1.
  const uint32_t below = rule.threshold == 0 ? 0 : (rule.threshold - 1) * 0x10001u, minus = __vneg2(below);
  uint32_t pairs = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs += __viaddmin_u16x2(__vmaxu2(four[i], below), minus, 0x10001u) << (2 * i);
  return rule.threshold == 0 ? 0xff : (pairs | pairs >> 15) & 0xff;
#else
  const uint32_t limit = rule.threshold << 16;
  uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (four[i] << 16 >= limit) bits |= 1u << (2 * i);
    if (four[i] >= limit) bits |= 2u << (2 * i);
  }
  return bits;
#endif
}

}  // namespace gradmill::flash
