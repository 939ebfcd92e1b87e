// SPDX-License-Identifier: Apache-2.0
// Flash attention, backward, for short sequences: the steps of a block that has all keys of a head in shared memory and
// loops over tiles of its queries. See attention_flash_short.cu.
#pragma once

#include "cuda/packed.cuh"
#include "cuda/reduce.cuh"
#include "ops/attention/flash_gradient.cuh"
#include "ops/attention/flash_short.cuh"

namespace gradmill::flash {

inline constexpr int kTileQueries = 64, kGradThreads = 256;
inline constexpr int kStrips = 2;      // strips of keys per warp
inline constexpr int kNs = kStep / 8;  // tiles of 8 queries per step

// The layout of shared memory. Rows of `dscores` are keys, columns the queries of a tile. Tiles alternate between two
// stages, and heads between two buffers for keys and values (`home`); a block with a single head has only one.
struct ShortLayout {
  static constexpr uint32_t kKeyBytes = kShortLen * kShortWidth * 2, kTileBytes = kTileQueries * kShortWidth * 2;
  static constexpr uint32_t kDscoreBytes = kShortLen * kTileQueries * 2, kVectorBytes = kShortLen * 4;
  static constexpr uint32_t kDscores = 4 * kTileBytes, kVectors = kDscores + 2 * kDscoreBytes;
  static constexpr uint32_t kBlocks = kVectors + 2 * kVectorBytes, kBlockBytes = kShortLen / 8 * 16;
  static constexpr uint32_t kRule = kBlocks + kBlockBytes, kHomes = (kRule + sizeof(Dropout) + 1023) / 1024 * 1024;
  static constexpr uint32_t kHomeBytes = 2 * kKeyBytes, kBytes = kHomes + kHomeBytes;
  static_assert(kBytes <= 163 * 1024 && kBytes + kHomeBytes <= 227 * 1024, "what Ampere and Hopper give a block");
  uint32_t base;

  __device__ uint32_t k(int home) const { return base + kHomes + home * kHomeBytes; }
  __device__ uint32_t v(int home) const { return k(home) + kKeyBytes; }
  __device__ uint32_t q(int stage) const { return base + stage * 2 * kTileBytes; }  // then dout
  __device__ uint32_t dscores(int stage) const { return base + kDscores + stage * kDscoreBytes; }
  __device__ uint32_t lse() const { return base + kVectors; }
  __device__ uint32_t delta() const { return lse() + kVectorBytes; }
  __device__ uint32_t blocks() const { return base + kBlocks; }  // philox_block() for the keys
};

// One head to process. The heads of a group come one after the other and share their keys.
struct Unit {
  int kv_head, head;
  Sequence seq;

  template <class N>
  __device__ Unit(const Params<N>& p, int item)
      : kv_head(item % (p.heads / p.group)),
        head(kv_head * p.group),
        seq(uniform_sequence(p, item / (p.heads / p.group))) {}
  // A sequence without queries counts as one empty tile.
  __device__ int tiles() const { return max(1, (seq.q_len + kTileQueries - 1) / kTileQueries); }
};

// Starts loading all keys or values of a unit; `from` is Params::k or v.
template <int kThreads, class N>
__device__ void load_keys(const Params<N>& p, const Unit& unit, const HeadRows<const N>& from, uint32_t to) {
  const N* const rows = from.at(unit.seq.k_begin, unit.kv_head * p.head_dim);
  load_tile<kShortWidth, kShortLen, kThreads>(to, rows, from.stride, unit.seq.k_len, p.head_dim, true,
                                              afresh(int(threadIdx.x)));
}

template <int kThreads, class N>
__device__ void load_queries(const GradParams<N>& grad, const Unit& unit, int tile, uint32_t q) {
  const Params<N>& p = grad.forward;
  const int query = tile * kTileQueries, row = unit.seq.q_begin + query, rows = unit.seq.q_len - query;
  const int column = unit.head * p.head_dim, thread = afresh(int(threadIdx.x));
  load_tile<kShortWidth, kTileQueries, kThreads>(q, p.q.at(row, column), p.q.stride, rows, p.head_dim, true, thread);
  load_tile<kShortWidth, kTileQueries, kThreads>(q + ShortLayout::kTileBytes, grad.dout.at(row, column),
                                                 grad.dout.stride, rows, p.head_dim, true, thread);
}

// The left operand of a product: strips of rows of a tile.
struct LeftStrips {
  uint32_t tile;
  LaneOffset<kShortWidth> lanes;
  const int (&rows)[kStrips];
  __device__ void get(int m, int k, uint32_t (&to)[4]) const {
    cuda::load_matrices(to, lanes.at(tile, rows[m], 2 * k));
  }
};

// lse, and delta = sum of out * dout, for all queries of one head: four lanes per row, with all loads in flight at
// once.
template <class N>
__device__ void load_vectors(const GradParams<N>& grad, const Sequence& seq, int head, const ShortLayout& at) {
  using Packed = cuda::Packed<N>;
  constexpr int kLanes = 4, kPacks = kShortWidth / kLanes / Packed::kSize, kRowsAtOnce = kGradThreads / kLanes;
  constexpr int kRows = kShortLen / kRowsAtOnce;
  const Params<N>& p = grad.forward;
  const int lane = int(threadIdx.x) % kLanes, first = int(threadIdx.x) / kLanes, column = head * p.head_dim;
  Packed out[kRows][kPacks], dout[kRows][kPacks];
#pragma unroll
  for (int i = 0; i < kRows * kPacks; ++i) {
    const int row = first + i / kPacks * kRowsAtOnce, within = (i % kPacks * kLanes + lane) * Packed::kSize;
    out[i / kPacks][i % kPacks] = dout[i / kPacks][i % kPacks] = Packed{};
    if (row >= seq.q_len || within >= p.head_dim) continue;
    out[i / kPacks][i % kPacks] = Packed::load(p.out.at(seq.q_begin + row, column + within));
    dout[i / kPacks][i % kPacks] = Packed::load(grad.dout.at(seq.q_begin + row, column + within));
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = first + i * kRowsAtOnce;
    float sum = 0;
#pragma unroll
    for (int e = 0; e < kPacks * Packed::kSize; ++e) {
      sum = fmaf(out[i][e / Packed::kSize][e % Packed::kSize], dout[i][e / Packed::kSize][e % Packed::kSize], sum);
    }
    sum = cuda::warp_reduce<kLanes>(sum, cuda::Sum{});
    if (lane != 0) continue;
    const float lse = row < seq.q_len ? p.lse[head * p.lse_stride + seq.q_begin + row] : 0;
    cuda::store_shared(at.lse() + row * 4, __float_as_uint(lse));
    cuda::store_shared(at.delta() + row * 4, __float_as_uint(sum));
  }
}

// keep_key_rows() for strips of keys from `keys` on; the parts that depend on the keys are read from shared memory.
template <int kTiles, int kMs>
__device__ uint32_t keep_strips(const Dropout& rule, uint32_t row, const int (&keys)[kMs], uint32_t blocks) {
  static_assert(kTiles % 2 == 0 && kTiles * kMs <= 8);
  const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  uint2 rows[kTiles / 2];
#pragma unroll
  for (uint32_t pair = 0; pair < kTiles / 2; ++pair) {
    rows[pair] = philox_row(rule, row + g / 4 * 8 + 2 * t + g % 2 + 16 * pair);
  }
  uint32_t bits = 0;
#pragma unroll
  for (int m = 0; m < kMs; ++m) {
    const uint4 block = cuda::load_shared_16(blocks + (keys[m] / 8 + g / 2 % 2) * 16);
#pragma unroll
    for (int pair = 0; pair < kTiles / 2; ++pair) {
      bits |= keep_eight(rule, philox_words(rule, rows[pair], block)) << (8 * (m * (kTiles / 2) + pair));
    }
  }
  bits = exchange_bits(bits, 16, 0x0f0f0f0fu, 4);
  bits = exchange_bits(bits, 8, 0x33333333u, 2);
  return exchange_bits(bits, 4, 0x55555555u, 1);
}

// The keys that the queries of a tile see, rounded to whole strips.
__device__ inline Range strips_of(const Sequence& seq, int query) {
  const Range keys = seq.keys_of({query, query + kTileQueries});
  return {keys.begin / kStripRows * kStripRows, (keys.end + kStripRows - 1) / kStripRows * kStripRows};
}

// Stores this lane's part of the gradients of a strip's scores, for the queries from chunk `chunk` on.
__device__ inline void store_dscores(uint32_t to, int strip, int chunk, const uint32_t (&left)[kNs / 2][4]) {
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kNs * 2; ++i) {
    const uint32_t row = strip + lane / 4 + i % 2 * 8;
    cuda::store_shared(to + Tile<kTileQueries>::offset(row, chunk + i / 2) + lane % 4 * 4, left[i / 4][i % 4]);
  }
}

// dq of the queries of a tile. Each warp computes 16 queries x 32 columns.
template <class N>
__device__ void query_gradient(const GradParams<N>& grad, const Sequence& seq, int head, int tile, uint32_t dscores,
                               uint32_t k) {
  const Params<N>& p = grad.forward;
  const int thread = afresh(int(threadIdx.x)), warp = thread / 32, lane = thread % 32;
  const int block = warp % 4, chunk = warp / 4 * 4, query = tile * kTileQueries;
  const LaneOffset<kShortWidth> square = lanes_of_square<kShortWidth>();
  const LaneOffset<kTileQueries> pair = lanes_of_pair<kTileQueries>();
  const Range keys = strips_of(seq, query);
  float dq[1][4][4] = {};
#pragma unroll 4
  for (int key = keys.begin; key < keys.end; key += kStripRows) {
    uint32_t left[1][1][4];
    cuda::load_matrices_transposed(left[0][0], pair.at(dscores, key, 2 * block));
    multiply_add<N>(dq, left, k + key * Tile<kShortWidth>::kRowBytes, square, chunk);
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int n = i / 2, half = i % 2, row = query + block * 16 + lane / 4 + half * 8;
    const int column = (chunk + n) * 8 + lane % 4 * 2;
    if (row >= seq.q_len || column >= p.head_dim) continue;
    const uint32_t bits = cuda::pack_pair<N>(dq[0][n][2 * half] * p.scale, dq[0][n][2 * half + 1] * p.scale);
    *reinterpret_cast<uint32_t*>(grad.dq.at(seq.q_begin + row, head * p.head_dim + column)) = bits;
  }
}

// One step: kStep queries of a tile and the first kMs strips of the warp.
template <class N, bool kDropout, int kMs>
__device__ void step(const Params<N>& p, const Sequence& seq, int query, const int (&strips)[kStrips],
                     const Dropout& at_rule, const ShortLayout& at, int stage, uint32_t k,
                     float (&dk)[kStrips][kShortWidth / 8][4], float (&dv)[kStrips][kShortWidth / 8][4]) {
  const LaneOffset<kShortWidth> square = lanes_of_square<kShortWidth>(), pair = lanes_of_pair<kShortWidth>();
  const LeftStrips k_rows{k, square, strips}, v_rows{k + ShortLayout::kKeyBytes, square, strips};
  int keys[kMs];
  bool all = true;
#pragma unroll
  for (int m = 0; m < kMs; ++m) {
    keys[m] = strips[m];
    all = all && seq.sees_all({query, query + kStep}, {strips[m], strips[m] + kStripRows});
  }
  uint32_t keep = ~0u;
  float keep_scale = 1;
  if constexpr (kDropout) {
    const Dropout rule = at_rule;
    keep = keep_strips<kNs>(rule, seq.q_begin + query, keys, at.blocks());
    keep_scale = rule.scale;
  }
  const int within = query % kTileQueries;
  const uint32_t q = at.q(stage) + within * Tile<kShortWidth>::kRowBytes, dout = q + ShortLayout::kTileBytes;
  const uint32_t lse = at.lse() + query * 4, delta = at.delta() + query * 4;
  float weights[kMs][kNs][4], dscores[kMs][kNs][4];
  multiply_transposed<N>(weights, k_rows, q, pair);
  multiply_transposed<N>(dscores, v_rows, dout, pair);
  const float scale2 = p.scale * kLog2E;
  if (all) {
    gradient_of_key_rows<false>(seq, query, keys, scale2, keep_scale, keep, lse, delta, weights, dscores);
  } else {
    gradient_of_key_rows<true>(seq, query, keys, scale2, keep_scale, keep, lse, delta, weights, dscores);
  }
  uint32_t left[kMs][kNs / 2][4];
  to_left<N>(weights, left);
  multiply_add<N>(dv, left, dout, square);
  to_left<N>(dscores, left);
#pragma unroll
  for (int m = 0; m < kMs; ++m) store_dscores(at.dscores(stage), strips[m], within / 8, left[m]);
  multiply_add<N>(dk, left, q, square);
}

// Processes the warp's strips for one tile: their contributions to dk and dv, and the gradients of scores, which other
// warps read later.
template <class N, bool kDropout>
__device__ void steps_of_tile(const Params<N>& p, const Sequence& seq, int tile, const int (&strips)[kStrips],
                              const Dropout& rule, const ShortLayout& at, int stage, uint32_t k,
                              float (&dk)[kStrips][kShortWidth / 8][4], float (&dv)[kStrips][kShortWidth / 8][4]) {
  const Range seen = strips_of(seq, tile * kTileQueries);
#pragma unroll 1
  for (int query = tile * kTileQueries; query < (tile + 1) * kTileQueries; query += kStep) {
    bool live[kStrips];
#pragma unroll
    for (int m = 0; m < kStrips; ++m) {
      live[m] = seq.sees_any({query, query + kStep}, {strips[m], strips[m] + kStripRows});
      // dq is summed over all strips that the tile sees.
      const bool summed = strips[m] >= seen.begin && strips[m] < seen.end;
      if (!live[m] && summed) store_dscores(at.dscores(stage), strips[m], query % kTileQueries / 8, {});
    }
    if (live[1]) {
      step<N, kDropout, 2>(p, seq, query, strips, rule, at, stage, k, dk, dv);
    } else if (live[0]) {
      step<N, kDropout, 1>(p, seq, query, strips, rule, at, stage, k, dk, dv);
    }
  }
}

}  // namespace gradmill::flash
