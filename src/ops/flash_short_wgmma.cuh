// SPDX-License-Identifier: Apache-2.0
// Flash attention, backward, for short sequences on Hopper: the steps of a block whose warpgroups own 64 keys each. See
// attention_flash_short_wgmma.cu.
#pragma once

#include "cuda/wgmma.cuh"
#include "ops/flash_short_gradient.cuh"

namespace gradmill::flash {

inline constexpr int kGroupKeys = 64, kGroups = kShortLen / kGroupKeys, kGroupThreads = 128 * kGroups;
// Who sums dq: under a causal mask it is the one with the least work.
inline constexpr int kQueryGroup = kGroups - 1;

// lse and delta of half of a head's queries on their way from memory: four lanes a row, all loads at once. Stored as
// the steps want them: lse in units of log 2, delta without dropout's factor, with which dq and dk are multiplied at
// last.
template <class N>
class HalfVectors {
 public:
  // Of the unit's first `end` queries; for the others something is read that store() ignores. Without a branch: behind
  // one the compiler would not believe that warps are together again, and products need to be sure of that.
  __device__ HalfVectors(const GradParams<N>& grad, const Unit& unit, int half, int end) {
    const Params<N>& p = grad.forward;
    const int thread = afresh(int(threadIdx.x)), row = thread / kLanes + half * kRows, lane = thread % kLanes;
    const int at = row < end ? unit.seq.q_begin + row : 0, column = unit.head * p.head_dim;
    lse_ = p.lse[unit.head * p.lse_stride + at];
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int chunk = i * kLanes + lane, within = chunk * Packed::kSize < p.head_dim ? chunk * Packed::kSize : 0;
      out_[i] = Packed::load(p.out.at(at, column + within));
      dout_[i] = Packed::load(grad.dout.at(at, column + within));
    }
  }
  // All four lanes store the same.
  __device__ void store(const ShortLayout& to, int half, int end, int head_dim, float kept_share) const {
    const int thread = afresh(int(threadIdx.x)), row = thread / kLanes + half * kRows, lane = thread % kLanes;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      float part = 0;
#pragma unroll
      for (int e = 0; e < Packed::kSize; ++e) part = fmaf(out_[i][e], dout_[i][e], part);
      sum += (i * kLanes + lane) * Packed::kSize < head_dim ? part : 0;
    }
    sum = cuda::warp_reduce<kLanes>(sum, cuda::Sum{});
    cuda::store_shared(to.lse() + row * 4, __float_as_uint(row < end ? lse_ * kLog2E : 0));
    cuda::store_shared(to.delta() + row * 4, __float_as_uint(row < end ? sum * kept_share : 0));
  }

 private:
  using Packed = cuda::Packed<N>;
  static constexpr int kLanes = 4, kPacks = kShortWidth / kLanes / Packed::kSize, kRows = kGroupThreads / kLanes;
  static_assert(2 * kRows == kShortLen);

  float lse_;
  Packed out_[kPacks], dout_[kPacks];
};

// From scores and the gradients of dropped weights to the dropped weights, but for dropout's factor, and the gradients
// of scores, but for `scale` and that factor. Rows are keys from `key` on, columns kStep queries. Addresses in shared
// memory of what HeadVectors says of them; `keep` as key_row_bit says.
template <bool kMasked>
__device__ void gradient_of_strip(const Sequence& seq, int query, int key, float scale2, uint32_t keep, uint32_t lse_at,
                                  uint32_t delta_at, float (&weights)[kNs][4], float (&dscores)[kNs][4]) {
  const int lane = int(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kNs; ++n) {
    const uint32_t at = (n * 8 + lane % 4 * 2) * 4;
    const float2 lse = cuda::load_shared_pair(lse_at + at), delta = cuda::load_shared_pair(delta_at + at);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = query + n * 8 + lane % 4 * 2 + e % 2, column = key + lane / 4 + e / 2 * 8;
      float weight = cuda::exp2_fast(fmaf(weights[n][e], scale2, e % 2 ? -lse.y : -lse.x));
      if (kMasked && !seq.sees(row, column)) weight = 0;
      const float kept = has_bit(keep, key_row_bit<kNs>(0, n, e)) ? weight : 0;
      dscores[n][e] = fmaf(kept, dscores[n][e], -(weight * (e % 2 ? delta.y : delta.x)));
      weights[n][e] = kept;
    }
  }
}

// The gradients of a strip's scores, of kStep queries from `within` of the tile on.
__device__ inline void store_strip_dscores(uint32_t to, int strip, int within, const uint32_t (&left)[kNs / 2][4]) {
  const LaneOffset<kTileQueries> square = lanes_of_square<kTileQueries>();
#pragma unroll
  for (int k = 0; k < kNs / 2; ++k) cuda::store_matrices(square.at(to, strip, within / 8 + 2 * k), left[k]);
}

// What a warp has to know of itself. `strip` is the first of its 16 keys.
struct Place {
  int group, strip;
};

// Which weights of a tile and the warp's keys are kept: bits as key_row_bit says of eight tiles.
__device__ inline uint32_t keep_tile(const Sequence& seq, int tile, const Place& place, const Dropout& at_rule,
                                     const ShortLayout& at) {
  const int query = tile * kTileQueries, keys[1] = {place.strip};
  if (!seq.sees_any({query, query + kTileQueries}, {place.strip, place.strip + kStripRows})) return 0;
  const Dropout rule = at_rule;
  return keep_strips<kTileQueries / 8>(rule, seq.q_begin + query, keys, at.blocks());
}

// A tile of queries and the warpgroup's keys: their part of dk and dv, and of the gradients of scores, of which others
// make dq later. `k` is where the head's keys lie, behind them its values. `keep` is this tile's if `drawn`, then the
// next one's.
template <class N, bool kDropout>
__device__ void group_tile(const Params<N>& p, const Sequence& seq, int tile, const Place& place, const Dropout& rule,
                           const ShortLayout& at, int stage, uint32_t k, uint32_t& keep, bool& drawn,
                           float (&dk)[kShortWidth / 8][4], float (&dv)[kShortWidth / 8][4]) {
  constexpr uint32_t kRowBytes = Tile<kShortWidth>::kRowBytes;
  const int first = tile * kTileQueries, block = place.group * kGroupKeys;
  const Range seen = strips_of(seq, first), mine{place.strip, place.strip + kStripRows};
  const uint64_t k_rows = cuda::matrix_at(k + block * kRowBytes);
  const uint64_t v_rows = cuda::matrix_at(k + ShortLayout::kKeyBytes + block * kRowBytes);
  if (kDropout && !drawn) keep = keep_tile(seq, tile, place, rule, at);
#pragma unroll 1
  for (int within = 0; within < kTileQueries; within += kStep) {
    const Range queries{first + within, first + within + kStep};
    if (!seq.sees_any(queries, {block, block + kGroupKeys})) {
      // dq is summed over all strips that the tile sees.
      if (mine.begin >= seen.begin && mine.begin < seen.end) {
        store_strip_dscores(at.dscores(stage), place.strip, within, {});
      }
      drawn = false;
      continue;
    }
    const uint32_t q = at.q(stage) + within * kRowBytes;
    const uint64_t q_rows = cuda::matrix_at(q), dout_rows = cuda::matrix_at(q + ShortLayout::kTileBytes);
    float weights[kNs][4], dscores[kNs][4];
    cuda::begin_products();
    cuda::multiply_rows<N, false>(weights, k_rows, q_rows);
    cuda::multiply_rows<N, true>(weights, k_rows + 2, q_rows + 2);
    cuda::multiply_rows<N, true>(weights, k_rows + 4, q_rows + 4);
    cuda::multiply_rows<N, true>(weights, k_rows + 6, q_rows + 6);
    cuda::multiply_rows<N, false>(dscores, v_rows, dout_rows);
    cuda::multiply_rows<N, true>(dscores, v_rows + 2, dout_rows + 2);
    cuda::multiply_rows<N, true>(dscores, v_rows + 4, dout_rows + 4);
    cuda::multiply_rows<N, true>(dscores, v_rows + 6, dout_rows + 6);
    cuda::end_products();
    cuda::wait_for_products<0>();
    cuda::hold_in_place(weights);
    cuda::hold_in_place(dscores);
    const uint32_t bits = within == 0 ? keep : keep >> 16;
    const uint32_t lse = at.lse() + queries.begin * 4, delta = at.delta() + queries.begin * 4;
    const float scale2 = p.scale * kLog2E;
    if (seq.sees_all(queries, mine)) {
      gradient_of_strip<false>(seq, queries.begin, mine.begin, scale2, bits, lse, delta, weights, dscores);
    } else {
      gradient_of_strip<true>(seq, queries.begin, mine.begin, scale2, bits, lse, delta, weights, dscores);
    }
    uint32_t left[2][kNs / 2][4];
    to_left<N>(reinterpret_cast<const float(&)[1][kNs][4]>(weights),
               reinterpret_cast<uint32_t(&)[1][kNs / 2][4]>(left[0]));
    to_left<N>(reinterpret_cast<const float(&)[1][kNs][4]>(dscores),
               reinterpret_cast<uint32_t(&)[1][kNs / 2][4]>(left[1]));
    cuda::hold_in_place(left[0]);
    cuda::hold_in_place(left[1]);
    cuda::begin_products();
#pragma unroll
    for (int i = 0; i < kNs / 2; ++i) {
      cuda::multiply_add_columns<N>(dv, left[0][i], dout_rows + i * (16 * kRowBytes / 16));
      cuda::multiply_add_columns<N>(dk, left[1][i], q_rows + i * (16 * kRowBytes / 16));
    }
    cuda::end_products();
    store_strip_dscores(at.dscores(stage), place.strip, within, left[1]);
    // Dropout's bits of the tile below, which comes next, while the matrix units work.
    drawn = kDropout && within > 0 && tile > 0;
    if (drawn) keep = keep_tile(seq, tile - 1, place, rule, at);
    cuda::wait_for_products<0>();
    cuda::hold_in_place(left[0]);
    cuda::hold_in_place(left[1]);
    cuda::hold_in_place(dk);
    cuda::hold_in_place(dv);
  }
}

// dq of a tile's queries, by one warpgroup; what it reads of `dscores` is gone afterwards.
template <class N>
__device__ void group_query_gradient(const GradParams<N>& grad, const Unit& unit, int tile, const Place& place,
                                     uint32_t dscores, uint32_t k, float factor) {
  constexpr uint32_t kRowBytes = Tile<kShortWidth>::kRowBytes;
  const Params<N>& p = grad.forward;
  const int query = tile * kTileQueries, own = place.strip % kGroupKeys;
  const Range keys = strips_of(unit.seq, query);
  float dq[1][kShortWidth / 8][4] = {};
  cuda::hold_in_place(dq[0]);
#pragma unroll 1
  for (int key = keys.begin; key < keys.end; key += kStripRows) {
    cuda::begin_products();
    cuda::multiply_add_transposed<N>(dq[0], cuda::matrix_at(dscores + key * kRowBytes),
                                     cuda::matrix_at(k + key * kRowBytes));
    cuda::end_products();
  }
  cuda::wait_for_products<0>();
  cuda::hold_in_place(dq[0]);
  scale_all(dq, factor);
  cuda::sync_warpgroup();
  store_strip(dscores + own * kRowBytes, dq[0], grad.dq, unit.seq.q_begin + query + own, unit.head * p.head_dim,
              unit.seq.q_len - query - own, p.head_dim);
}

}  // namespace gradmill::flash
