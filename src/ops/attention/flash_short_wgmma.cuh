// SPDX-License-Identifier: Apache-2.0
// Flash attention, backward, for short sequences on Hopper: the loops of a warpgroup over a head in shared memory. See
// attention_flash_short_wgmma.cu.
#pragma once

#include "cuda/wgmma.cuh"
#include "ops/attention/flash_short_gradient.cuh"

namespace gradmill::flash {

// In each loop a warpgroup owns kBlock rows, of keys or queries, and processes kBlock of the others per step. It has
// two blocks of keys and two of queries.
inline constexpr int kBlock = 64, kBlocks = kShortLen / kBlock, kGroupThreads = 256, kGroupWarps = kGroupThreads / 32;
inline constexpr int kBlockTiles = kBlock / 8, kWidthTiles = kShortWidth / 8;

// The layout of shared memory. Keys and values have one buffer. Queries and the gradients of their outputs have two
// (`home`), which alternate between heads.
struct HeadLayout {
  static constexpr uint32_t kRowBytes = Tile<kShortWidth>::kRowBytes, kTensorBytes = kShortLen * kRowBytes;
  static constexpr uint32_t kBitBytes = kShortLen * kShortLen / 8;
  static constexpr uint32_t kKeyBits = 6 * kTensorBytes, kQueryBits = kKeyBits + kBitBytes;
  static constexpr uint32_t kStages = kQueryBits + kBitBytes, kVectors = kStages + kGroupWarps * kStripBytes;
  static constexpr uint32_t kRule = kVectors + kShortLen * 8, kBytes = kRule + sizeof(Dropout);
  static_assert(kBytes <= 227 * 1024, "what Hopper gives a block");
  uint32_t base;

  __device__ uint32_t k() const { return base; }
  __device__ uint32_t v() const { return base + kTensorBytes; }
  __device__ uint32_t q(int home) const { return base + (2 + 2 * home) * kTensorBytes; }
  __device__ uint32_t dout(int home) const { return q(home) + kTensorBytes; }
  // The dropout mask for a strip of keys and a block of queries: one word per lane, with bits in the order of
  // key_row_bit.
  __device__ uint32_t key_bits(int strip, int query) const {
    return base + kKeyBits + (strip / kStripRows * kBlocks + query / kBlock) * 128;
  }
  // The dropout mask for a query and 32 keys: one word, with bit i for key i. The word for the next 32 keys is
  // kNextKeys bytes later.
  static constexpr uint32_t kNextKeys = kShortLen * 4;
  __device__ uint32_t query_bits(int key, int query) const {
    return base + kQueryBits + key / 32 * kNextKeys + query * 4;
  }
  // For queries 2i and 2i + 1: lse of both in units of log 2, then delta of both, without dropout's factor.
  __device__ uint32_t vectors(int query) const { return base + kVectors + query / 2 * 16; }
  __device__ uint32_t stage(int warp) const { return base + kStages + warp * kStripBytes; }
};

// The rows of a loop: the first row of the warpgroup's block, and of the warp's strip in it.
struct Place {
  int block, strip;
};

// The columns that this lane's rows g and g + 8 see, from first to last. Column 8n + e % 2 is element e of tile n.
struct Band {
  int first[2], last[2];
  __device__ bool has(int n, int e) const {
    const int column = 8 * n + e % 2;
    return first[e / 2] <= column && column <= last[e / 2];
  }
};

// For the warp's keys, and queries from `query` on.
__device__ inline Band band_of_keys(const Sequence& seq, const Place& place, int query) {
  const int lane = int(threadIdx.x) % 32, start = query + lane % 4 * 2;
  Band band;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int key = place.strip + lane / 4 + half * 8;
    band.first[half] = key - seq.high - start;
    band.last[half] = key < seq.k_len ? key - seq.low - start : -1;
  }
  return band;
}

// For the warp's queries, and keys from `key` on.
__device__ inline Band band_of_queries(const Sequence& seq, const Place& place, int key) {
  const int lane = int(threadIdx.x) % 32, start = key + lane % 4 * 2;
  Band band;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = place.strip + lane / 4 + half * 8;
    band.first[half] = query + seq.low - start;
    band.last[half] = min(query + seq.high, seq.k_len - 1) - start;
  }
  return band;
}

// Converts scores to weights. Rows are keys, columns are queries, whose lse and delta are stored at `vectors`.
template <bool kMasked>
__device__ void weigh_queries(const Band& seen, float scale2, uint32_t vectors, float (&s)[kBlockTiles][4]) {
#pragma unroll
  for (int n = 0; n < kBlockTiles; ++n) {
    const float2 lse = cuda::load_shared_pair(vectors + n * 64);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float weight = cuda::exp2_fast(fmaf(s[n][e], scale2, e % 2 ? -lse.y : -lse.x));
      s[n][e] = kMasked && !seen.has(n, e) ? 0 : weight;
    }
  }
}

// Converts weights to dropped weights without dropout's factor, and their gradients `dp` to those of scores without
// `scale` and that factor. `keep` has the layout of key_row_bit.
template <bool kDropout>
__device__ void gradient_of_queries(uint32_t keep, uint32_t vectors, float (&s)[kBlockTiles][4],
                                    float (&dp)[kBlockTiles][4]) {
#pragma unroll
  for (int n = 0; n < kBlockTiles; ++n) {
    const float2 delta = cuda::load_shared_pair(vectors + n * 64 + 8);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float down = s[n][e] * (e % 2 ? delta.y : delta.x);
      if (kDropout && !has_bit(keep, key_row_bit<kBlockTiles>(0, n, e))) s[n][e] = 0;
      dp[n][e] = fmaf(s[n][e], dp[n][e], -down);
    }
  }
}

// The same if rows are queries, whose lse and delta the lane holds, and columns are keys.
template <bool kMasked>
__device__ void weigh_keys(const Band& seen, float scale2, const float (&lse)[2], float (&s)[kBlockTiles][4]) {
#pragma unroll
  for (int i = 0; i < 4 * kBlockTiles; ++i) {
    const int n = i / 4, e = i % 4;
    const float weight = cuda::exp2_fast(fmaf(s[n][e], scale2, -lse[e / 2]));
    s[n][e] = kMasked && !seen.has(n, e) ? 0 : weight;
  }
}

// Bit 8 * (n % 4) + e % 2 of keep[n / 4][e / 2] belongs to element e of tile n.
template <bool kDropout>
__device__ void gradient_of_keys(const uint32_t (&keep)[2][2], const float (&delta)[2],
                                 const float (&s)[kBlockTiles][4], float (&dp)[kBlockTiles][4]) {
#pragma unroll
  for (int i = 0; i < 4 * kBlockTiles; ++i) {
    const int n = i / 4, e = i % 4;
    if (kDropout && !has_bit(keep[n / 4][e / 2], 8 * (n % 4) + e % 2)) dp[n][e] = 0;
    dp[n][e] = s[n][e] * (dp[n][e] - delta[e / 2]);
  }
}

// The warp's strip of a tensor, as the left operand of products over the columns of a head.
using OwnRows = uint32_t[kShortWidth / 16][4];
__device__ inline void load_own(uint32_t tensor, int strip, OwnRows& rows) {
  const LaneOffset<kShortWidth> square = lanes_of_square<kShortWidth>();
#pragma unroll
  for (int k = 0; k < kShortWidth / 16; ++k) cuda::load_matrices(rows[k], square.at(tensor, strip, 2 * k));
  cuda::hold_in_place(rows);
}

// ptxas 13.0 does not notice that operands in registers are used again by the next iteration's products unless they are
// also used after the loop. This is such a use; it is never executed.
__device__ inline void use_at_last(uint32_t stage, const OwnRows& rows) {
  if (threadIdx.y == 0) return;
#pragma unroll
  for (int i = 0; i < kShortWidth / 4; ++i) cuda::store_shared(stage + i * 4, rows[i / 4][i % 4]);
}

// Queues c = own · rowsᵀ over the columns of a head.
template <class N>
__device__ void multiply_heads(float (&c)[kBlockTiles][4], const OwnRows& own, uint64_t rows) {
  cuda::begin_products();
  cuda::multiply_rows<N, false>(c, own[0], rows);
#pragma unroll
  for (int k = 1; k < kShortWidth / 16; ++k) cuda::multiply_rows<N, true>(c, own[k], rows + k * (16 * 2 / 16));
  cuda::end_products();
}

// Queues c += left · rows.
using Left = uint32_t[kBlock / 16][4];
template <class N>
__device__ void multiply_add_rows(float (&c)[kWidthTiles][4], Left& left, uint64_t rows) {
  cuda::hold_in_place(c);
  cuda::hold_in_place(left);
  cuda::begin_products();
#pragma unroll
  for (int k = 0; k < kBlock / 16; ++k) {
    cuda::multiply_add_columns<N>(c, left[k], rows + k * (16 * HeadLayout::kRowBytes / 16));
  }
  cuda::end_products();
}

template <class N>
__device__ void to_left(const float (&acc)[kBlockTiles][4], Left& left) {
  to_left<N>(reinterpret_cast<const float(&)[1][kBlockTiles][4]>(acc),
             reinterpret_cast<uint32_t(&)[1][kBlock / 16][4]>(left));
}

// Adds the contribution of one head's queries to dk and dv (`k` and `v`) of a block of keys. The last products of a
// step are still in flight when the first ones of the next are queued.
template <class N, bool kDropout>
__device__ void walk_over_queries(const Sequence& seq, const Place& place, const HeadLayout& at, int home, float scale2,
                                  OwnRows& k, OwnRows& v, float (&dk)[kWidthTiles][4], float (&dv)[kWidthTiles][4]) {
  const Range queries = seq.queries_of({place.block, min(place.block + kBlock, seq.k_len)});
  const int lane = afresh(int(threadIdx.x)) % 32, end = uniform(place.block < seq.k_len ? queries.end : 0);
  Left weights = {}, dscores = {};
#pragma unroll 1
  for (int query = uniform(queries.begin / kBlock * kBlock); query < end; query += kBlock) {
    const uint64_t q = cuda::matrix_at(at.q(home) + query * HeadLayout::kRowBytes);
    const uint64_t dout = cuda::matrix_at(at.dout(home) + query * HeadLayout::kRowBytes);
    float s[kBlockTiles][4], dp[kBlockTiles][4];
    multiply_heads<N>(s, k, q);
    multiply_heads<N>(dp, v, dout);
    const uint32_t vectors = at.vectors(query) + lane % 4 * 16;
    uint32_t keep = 0;
    if (kDropout) keep = cuda::load_shared_word(at.key_bits(place.strip, query) + lane * 4);
    cuda::wait_for_products<1>();
    cuda::hold_in_place(s);
    cuda::hold_in_place(weights);
    cuda::hold_in_place(dscores);
    cuda::hold_in_place(dk);
    cuda::hold_in_place(dv);
    if (seq.sees_all({query, query + kBlock}, {place.strip, place.strip + kStripRows})) {
      weigh_queries<false>({}, scale2, vectors, s);
    } else {
      weigh_queries<true>(band_of_keys(seq, place, query), scale2, vectors, s);
    }
    cuda::hold_in_place(s);  // must be before the wait
    cuda::wait_for_products<0>();
    cuda::hold_in_place(dp);
    gradient_of_queries<kDropout>(keep, vectors, s, dp);
    to_left<N>(s, weights);
    to_left<N>(dp, dscores);
    multiply_add_rows<N>(dv, weights, dout);
    multiply_add_rows<N>(dk, dscores, q);
  }
  cuda::wait_for_products<0>();
  cuda::hold_in_place(weights);
  cuda::hold_in_place(dscores);
  cuda::hold_in_place(dk);
  cuda::hold_in_place(dv);
  use_at_last(at.stage(0), k);
  use_at_last(at.stage(0), v);
}

// dq of a block of queries, without its factors.
template <class N, bool kDropout>
__device__ void walk_over_keys(const Sequence& seq, const Place& place, const HeadLayout& at, int home, float scale2,
                               float (&dq)[kWidthTiles][4]) {
  const Range keys = seq.keys_of({place.block, min(place.block + kBlock, seq.q_len)});
  const int lane = afresh(int(threadIdx.x)) % 32, row = place.strip + lane / 4;
  const int end = uniform(place.block < seq.q_len ? keys.end : 0);
  OwnRows q, dout;
  load_own(at.q(home), place.strip, q);
  load_own(at.dout(home), place.strip, dout);
  float lse[2], delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t vectors = at.vectors(row + half * 8) + row % 2 * 4;
    lse[half] = cuda::load_shared_float(vectors);
    delta[half] = cuda::load_shared_float(vectors + 8);
  }
  Left dscores = {};
#pragma unroll 1
  for (int key = uniform(keys.begin / kBlock * kBlock); key < end; key += kBlock) {
    const uint64_t k = cuda::matrix_at(at.k() + key * HeadLayout::kRowBytes);
    const uint64_t v = cuda::matrix_at(at.v() + key * HeadLayout::kRowBytes);
    float s[kBlockTiles][4], dp[kBlockTiles][4];
    multiply_heads<N>(s, q, k);
    multiply_heads<N>(dp, dout, v);
    uint32_t keep[2][2] = {};
    if (kDropout) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t bits = at.query_bits(key, row + i % 2 * 8) + i / 2 * HeadLayout::kNextKeys;
        keep[i / 2][i % 2] = cuda::load_shared_word(bits) >> (lane % 4 * 2);
      }
    }
    cuda::wait_for_products<1>();
    cuda::hold_in_place(s);
    cuda::hold_in_place(dscores);
    cuda::hold_in_place(dq);
    if (seq.sees_all({place.strip, place.strip + kStripRows}, {key, key + kBlock})) {
      weigh_keys<false>({}, scale2, lse, s);
    } else {
      weigh_keys<true>(band_of_queries(seq, place, key), scale2, lse, s);
    }
    cuda::hold_in_place(s);  // must be before the wait
    cuda::wait_for_products<0>();
    cuda::hold_in_place(dp);
    gradient_of_keys<kDropout>(keep, delta, s, dp);
    to_left<N>(dp, dscores);
    multiply_add_rows<N>(dq, dscores, k);
  }
  cuda::wait_for_products<0>();
  cuda::hold_in_place(dscores);
  cuda::hold_in_place(dq);
  use_at_last(at.stage(0), q);
  use_at_last(at.stage(0), dout);
}

// Saves dk and dv to local memory, and loads them back.
__device__ inline void park(const float (&dk)[kWidthTiles][4], const float (&dv)[kWidthTiles][4],
                            float4 (&to)[kWidthTiles][2]) {
#pragma unroll
  for (int n = 0; n < kWidthTiles; ++n) {
    to[n][0] = make_float4(dk[n][0], dk[n][1], dk[n][2], dk[n][3]);
    to[n][1] = make_float4(dv[n][0], dv[n][1], dv[n][2], dv[n][3]);
  }
}
__device__ inline void fetch(const float4 (&from)[kWidthTiles][2], float (&dk)[kWidthTiles][4],
                             float (&dv)[kWidthTiles][4]) {
#pragma unroll
  for (int n = 0; n < kWidthTiles; ++n) {
    const float4 k = from[n][0], v = from[n][1];
    dk[n][0] = k.x, dk[n][1] = k.y, dk[n][2] = k.z, dk[n][3] = k.w;
    dv[n][0] = v.x, dv[n][1] = v.y, dv[n][2] = v.z, dv[n][3] = v.w;
  }
}

// A warp writes its strip of a gradient, times `factor`, to `rows` rows of `to`, 16 bytes at a time, through
// kStripBytes of shared memory that only this warp uses.
template <class N>
__device__ void store_gradient(uint32_t stage, const float (&acc)[kWidthTiles][4], float factor, const HeadRows<N>& to,
                               int row, int column, int rows, int cols) {
  using Rows = Tile<kShortWidth>;
  constexpr int kRowsAtOnce = 32 / Rows::kChunks;
  const int lane = afresh(int(threadIdx.x)) % 32, first = lane / Rows::kChunks, chunk = lane % Rows::kChunks;
  const LaneOffset<kShortWidth> square = lanes_of_square<kShortWidth>();
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kWidthTiles; n += 2) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float(&from)[4] = acc[n + i / 2];
      words[i] = cuda::pack_pair<N>(from[i % 2 * 2] * factor, from[i % 2 * 2 + 1] * factor);
    }
    cuda::store_matrices(square.at(stage, 0, n), words);
  }
  __syncwarp();
  N* out = to.at(row + first, column + chunk * 8);
  const int left = chunk * 8 < cols ? rows - first : 0;
#pragma unroll
  for (int i = 0; i < kStripRows; i += kRowsAtOnce, out += kRowsAtOnce * to.stride) {
    cuda::store_global_16(i < left, out, cuda::load_shared_16(stage + Rows::offset(first + i, chunk)));
  }
}

}  // namespace gradmill::flash
