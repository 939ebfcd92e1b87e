// SPDX-License-Identifier: Apache-2.0
// Functions shared by the attention kernels for short sequences: storing results, and a cheaper way to draw dropout's
// random words for many rows and blocks of columns. The first two of Philox's seven rounds, and half of the third,
// depend on the row alone or on the block alone. Computed once for each, they leave 9 of 14 wide products for each
// pair.
#pragma once

#include "cuda/mma.cuh"
#include "ops/attention/flash_dropout.cuh"
#include "ops/attention/flash_tile.cuh"

namespace gradmill::flash {

// The largest number of keys and queries of a sequence, and the largest width of a head.
inline constexpr int kShortLen = 256, kShortWidth = 64;

// The same value, which all lanes of the warp have. Returned in a form that tells the compiler so.
__device__ inline int uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

// The same value. Keeps the compiler from holding what depends on it in registers, which are scarce: it recomputes it
// instead.
__device__ inline int afresh(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

// Values that are the same for all lanes are kept in uniform registers, of which there are enough. Branches on them do
// not keep the compiler from mixing the code before and after.
template <class N>
__device__ Sequence uniform_sequence(const Params<N>& p, int index) {
  Sequence seq(p, index);
  for (int* field : {&seq.q_begin, &seq.q_len, &seq.k_begin, &seq.k_len, &seq.low, &seq.high}) *field = uniform(*field);
  return seq;
}

// Number of rows of a strip, the unit of work of a warp.
inline constexpr int kStripRows = 16;
inline constexpr uint32_t kStripBytes = kStripRows * kShortWidth * 2;

// A warp writes the accumulators of a strip to `rows` rows of `to`, 16 bytes at a time, through kStripBytes of shared
// memory that only this warp uses. In assembly, because the compiler splits a plain vector store.
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
  uint32_t key0, key1;  // keys of the first round

  __device__ explicit PhiloxRounds(uint64_t seed)
      : key0(static_cast<uint32_t>(seed)), key1(static_cast<uint32_t>(seed >> 32)) {}
  __device__ static uint32_t high(uint64_t product) { return static_cast<uint32_t>(product >> 32); }
  __device__ static uint32_t low(uint64_t product) { return static_cast<uint32_t>(product); }
  // The key of round r, counted from 0.
  __device__ uint32_t first_key(uint32_t round) const { return key0 + round * kWeyl0; }
  __device__ uint32_t second_key(uint32_t round) const { return key1 + round * kWeyl1; }
};

// The part of Philox that depends on the row of the micro-batch.
__device__ inline uint2 philox_row(const Dropout& rule, uint32_t row) {
  const PhiloxRounds rounds(rule.seed);
  const uint64_t step = cuda::multiply_wide(PhiloxRounds::kMul1, rule.step);
  const uint32_t x = PhiloxRounds::high(step) ^ (rule.token_base + row) ^ rounds.first_key(0);
  const uint64_t product = cuda::multiply_wide(PhiloxRounds::kMul0, x);
  return make_uint2(PhiloxRounds::high(product), PhiloxRounds::low(product));
}

// The part of Philox that depends on the block of eight columns.
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

// The random words for one row and one block of columns: the same as Dropout::words().
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

// Bit i tells whether column i of the block is kept.
__device__ inline uint32_t keep_eight(const Dropout& rule, const uint4& words) {
  const uint32_t four[4] = {words.x, words.y, words.z, words.w};
#if __CUDA_ARCH__ >= 900
  // Both halves of a word at once: max(half, threshold - 1) - (threshold - 1), limited to 1.
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
