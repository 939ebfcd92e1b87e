// SPDX-License-Identifier: Apache-2.0
// Disentangled attention, backward: the gradients of a tile's scores, and their arrangement by distance, as operands of
// products with and for the position tables.
#pragma once

#include "ops/disentangled/disentangled_tile.cuh"
#include "ops/attention/flash_gradient.cuh"

namespace gradmill::disentangled {

// lse (in units of log 2) and delta for this lane's rows g and g + 8 of a strip. Rows after the last have an infinite
// lse, hence no weight.
struct RowSums {
  float lse2[2], delta[2];

  template <class N>
  __device__ RowSums(const PositionGradParams<N>& grad, const Sequence& seq, int head, int query) {
    const Params<N>& p = grad.forward.content;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = query + int(threadIdx.x) % 32 / 4 + half * 8;
      const bool there = row < seq.q_len;
      const int64_t at = head * p.lse_stride + seq.q_begin + row;
      lse2[half] = there ? p.lse[at] * kLog2E : INFINITY;
      delta[half] = there ? grad.delta[at] : 0;
    }
  }
};

// The positions of a tile's operands in shared memory.
template <int D>
struct TileOperands {
  uint32_t q, dout, k, v, scratch;
  Window<D> window_k, window_q;
};

// For the warp's 16 queries from `query` on and the keys from `key` on: computes the dropped weights without
// keep_scale, and the gradients of their scores without `scale`. On return, other warps may still be reading `scratch`.
template <class N, int D, bool kDropout, class Left>
__device__ void tile_gradient(const PositionGradParams<N>& grad, const Sequence& seq, const Dropout& dropout, int head,
                              int query, int key, const RowSums& sums, const Left& q, const Left& dout,
                              const TileOperands<D>& at, float (&weights)[1][kNs][4], float (&dscores)[1][kNs][4]) {
  const Params<N>& p = grad.forward.content;
  uint32_t keep = ~0u;
  if (kDropout && dropout.on()) {
    keep = keep_query_rows<kNs>(dropout, seq.q_begin + query, uint32_t(head * p.dropout_columns + key));
  }
  tile_scores<N>(weights, grad.forward, q, at.k, at.window_k, at.window_q, at.scratch);
  multiply_transposed<N>(dscores, dout, at.v, lanes_of_pair<D>());
  const float scale2 = p.scale * kLog2E, keep_scale = kDropout ? dropout.scale : 1;
  const int keys = seq.k_len - key - int(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int i = 0; i < 4 * kNs; ++i) {
    const int n = i / 4, e = i % 4;
    weights[0][n][e] =
        softmax_gradient(n * 8 + e % 2 < keys, has_bit(keep, query_row_bit(n, e)), weights[0][n][e] * scale2,
                         sums.lse2[e / 2], sums.delta[e / 2], keep_scale, dscores[0][n][e]);
  }
}

// Gradients of scores arranged by distance: 16-bit rows of kSpan columns, one per query or key, in the layout for
// ldmatrix. A row uses 64 columns, and the other 16 are 0. The odd number of chunks per row puts eight rows into
// different banks.
inline constexpr uint32_t kSkewPitch = 176, kSkewBytes = kTile * kSkewPitch, kSkewStrip = kStrip * kSkewPitch;

// Writes the zeros of 16 rows: row i has `count(i)` zeros in front, and the others at its end.
template <class Count>
__device__ void clear_corners(uint32_t rows, Count count) {
  const uint32_t lane = threadIdx.x % 32, row = lane / 2, front = count(row);
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i) {
    const uint32_t zero = lane % 2 * 8 + i;
    store_shared_half(rows + row * kSkewPitch + (zero < front ? zero : zero + kTile) * 2, 0);
  }
}

template <class N>
__device__ uint16_t half_bits(float value) {
  const N narrow = cuda::from_float<N>(value);
  return *reinterpret_cast<const uint16_t*>(&narrow);
}

// Stores the warp's strip of queries to the rows of `strip`.
template <class N>
__device__ void skew_by_query(uint32_t strip, const float (&dscores)[kNs][4]) {
  const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  clear_corners(strip, [](uint32_t row) { return row; });
  const uint32_t at = strip + g * kSkewPitch + (g + kTile - 1 - 2 * t) * 2;
#pragma unroll
  for (int i = 0; i < 4 * kNs; ++i) {
    const int n = i / 4, e = i % 4;
    store_shared_half(at + e / 2 * 8 * (kSkewPitch + 2) - (n * 8 + e % 2) * 2, half_bits<N>(dscores[n][e]));
  }
}

// Stores the warp's queries to the rows of all 64 keys in `keys`.
template <class N>
__device__ void skew_by_key(uint32_t keys, const float (&dscores)[kNs][4]) {
  const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, strip = warp_index() * kStrip;
  clear_corners(keys + strip * kSkewPitch, [](uint32_t row) { return kStrip - 1 - row; });
  const uint32_t at = keys + 2 * t * (kSkewPitch - 2) + (strip + g + kStrip - 1) * 2;
#pragma unroll
  for (int i = 0; i < 4 * kNs; ++i) {
    const int n = i / 4, e = i % 4, key = n * 8 + e % 2, within = n % 2 * 8 + e % 2;  // without the lane's 2 t
    store_shared_half(at + key * kSkewPitch - within * 2 + e / 2 * 16, half_bits<N>(dscores[n][e]));
  }
}

// acc (16 rows, D) += a strip of rows arranged by distance · the strip's span of a window.
template <class N, int D>
__device__ void multiply_skewed(float (&acc)[1][D / 8][4], uint32_t strip, const Window<D>& window, uint32_t first) {
  const LaneOffset<D> square = lanes_of_square<D>();
  const uint32_t lane = threadIdx.x % 32, at = strip + lane % 16 * kSkewPitch + lane / 16 * 16;
#pragma unroll
  for (int k = 0; k < kSpan / 16; ++k) {
    uint32_t left[1][1][4];
    cuda::load_matrices(left[0][0], at + k * 32);
    multiply_add<N>(acc, left, window.at(first + k * 16), square);
  }
}

// acc (16 distances, columns from `chunk` on) += the transpose of 16 columns of a strip arranged by distance · the
// strip's 16 rows of contents.
template <class N, int D, int kCols>
__device__ void multiply_distances(float (&acc)[1][kCols][4], uint32_t strip, uint32_t tile, uint32_t rows,
                                   uint32_t chunk) {
  const uint32_t lane = threadIdx.x % 32;
  uint32_t left[1][1][4];
  cuda::load_matrices_transposed(left[0][0],
                                 strip + (lane % 8 + lane / 16 * 8) * kSkewPitch + tile * 32 + lane / 8 % 2 * 16);
  multiply_add<N>(acc, left, rows, lanes_of_square<D>(), chunk);
}

// Stores this lane's part of a tile (64 queries, 64 keys) of 16-bit numbers.
__device__ inline void store_tile(uint32_t to, const uint32_t (&left)[1][kNs / 2][4]) {
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 2 * kNs; ++i) {
    const uint32_t row = warp_index() * kStrip + lane / 4 + i % 2 * 8;
    cuda::store_shared(to + Tile<kTile>::offset(row, i / 2) + lane % 4 * 4, left[0][i / 4][i % 4]);
  }
}

// acc (the warp's 16 keys, D) += tileᵀ · rows of the tile's 64 queries.
template <class N, int D>
__device__ void multiply_keys(float (&acc)[1][D / 8][4], uint32_t tile, uint32_t rows) {
  const LaneOffset<kTile> pair = lanes_of_pair<kTile>();
  const LaneOffset<D> square = lanes_of_square<D>();
#pragma unroll
  for (int k = 0; k < kTile / 16; ++k) {
    uint32_t left[1][1][4];
    cuda::load_matrices_transposed(left[0][0], pair.at(tile, k * 16, 2 * warp_index()));
    multiply_add<N>(acc, left, rows + k * 16 * Tile<D>::kRowBytes, square);
  }
}

}  // namespace gradmill::disentangled
