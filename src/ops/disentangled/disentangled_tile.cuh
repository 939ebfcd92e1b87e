// SPDX-License-Identifier: Apache-2.0
// A tile of 64 queries x 64 keys of disentangled attention, for blocks of four warps that each own a strip of 16
// queries. The pairs of a tile have 127 distances. The rows of a position table for these distances are gathered into a
// window in shared memory. So products with the window are indexed by distance, and a pair finds its element by a
// shift: there are no table lookups, and no two pairs of one query (or key) share an element, so the backward is a
// plain copy too. The pairs of a strip have 79 distances, so a strip is multiplied with 80 rows of the window.
#pragma once

#include "ops/disentangled/disentangled_params.cuh"
#include "ops/attention/flash_dropout.cuh"
#include "ops/attention/flash_tile.cuh"

namespace gradmill::disentangled {

inline constexpr int kStrip = 16, kSpan = 80;  // queries per warp; rows of the window that they need
inline constexpr int kWarps = kTile / kStrip, kThreads = 32 * kWarps, kNs = kTile / 8;

// Shared memory: 64 rows of a head, and a window.
template <int D>
struct TileBytes {
  static constexpr uint32_t kRows = kTile * D * 2, kRing = kWindow * D * 2;
};

// The window of a table. Row r is for distance (first query - first key) + r - 63. The next tile moves the window by
// half its size: the halves are swapped, and one of them is loaded anew.
template <int D>
struct Window {
  uint32_t base;
  uint32_t flip = 0;  // 0 or kTile

  // `row` must be a multiple of 16.
  __device__ uint32_t at(uint32_t row) const { return base + (row ^ flip) * Tile<D>::kRowBytes; }
};

// Starts loading rows [begin, begin + kRows) of a window.
template <int kRows, int D, class N>
__device__ void load_window(const Window<D>& window, const PositionParams<N>& p, const HeadRows<const N>& table,
                            int column, int ahead, int begin) {
  constexpr int kChunks = Tile<D>::kChunks, kRowsAtOnce = kThreads / kChunks;
  if (table.data == nullptr) return;
  const int chunk = int(threadIdx.x) % kChunks, first = begin + int(threadIdx.x) / kChunks;
  const bool there = chunk * 8 < p.content.head_dim;
  int rows[kRows / kRowsAtOnce];
#pragma unroll
  for (int i = 0; i < kRows / kRowsAtOnce; ++i) {
    // Distances beyond the last key or query are looked up as well, but no pair has them.
    const int distance = ahead + first + i * kRowsAtOnce - (kTile - 1);
    rows[i] = p.buckets[max(-p.farthest, min(p.farthest, distance))];
  }
#pragma unroll
  for (int i = 0; i < kRows / kRowsAtOnce; ++i) {
    const uint32_t row = uint32_t(first + i * kRowsAtOnce) ^ window.flip;
    cuda::copy_async<16>(window.base + Tile<D>::offset(row, chunk), table.at(rows[i], column + chunk * 8), there);
  }
}

// Starts loading a tile whose first row is row `first` of the sequence.
template <int D, class N>
__device__ void load_rows(uint32_t to, const HeadRows<const N>& from, const Sequence& seq, int first, int column,
                          int head_dim) {
  load_tile<D, kTile, kThreads>(to, from.at(seq.q_begin + first, column), from.stride, seq.q_len - first, head_dim,
                                true);
}

__device__ inline uint32_t warp_index() { return threadIdx.x / 32; }

__device__ inline float load_shared_float(uint32_t address) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}
__device__ inline void store_shared_float(uint32_t address, float value) {
  cuda::store_shared(address, __float_as_uint(value));
}
__device__ inline void store_shared_half(uint32_t address, uint16_t value) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(value) : "memory");
}

// Products with the window, as fp32 rows of kSpan columns. The pitches make the reads of scores free of bank conflicts.
inline constexpr uint32_t kQueryPitch = 87, kKeyPitch = 85;
inline constexpr uint32_t kProductBytes = kTile * kQueryPitch * 4;

// Columns [kBegin, kBegin + kCount) of the product of 16 rows of `left` and kSpan rows of the window from `first` on.
template <class N, uint32_t kPitch, int kBegin, int kCount, int D, class Left>
__device__ void multiply_span(uint32_t to, const Left& left, const Window<D>& window, uint32_t first) {
  const LaneOffset<D> lanes = lanes_of_pair<D>();
  float acc[kCount / 8][4] = {};
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    uint32_t a[4];
    left.get(0, k, a);
#pragma unroll
    for (int n = 0; n < kCount / 8; n += 2) {
      uint32_t b[4];
      cuda::load_matrices(b, lanes.at(window.at(first + kBegin + n * 8), 0, 2 * k));
      cuda::mma<N>(acc[n], a, b[0], b[1]);
      cuda::mma<N>(acc[n + 1], a, b[2], b[3]);
    }
  }
  const uint32_t lane = threadIdx.x % 32, at = to + (lane / 4 * kPitch + lane % 4 * 2 + kBegin) * 4;
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    store_shared_float(at + (i % 4 / 2 * 8 * kPitch + i / 4 * 8 + i % 2) * 4, acc[i / 4][i % 4]);
  }
}

// In two parts, because registers are scarce.
template <class N, uint32_t kPitch, int D, class Left>
__device__ void multiply_window(uint32_t to, const Left& left, const Window<D>& window, uint32_t first) {
  multiply_span<N, kPitch, 0, 48>(to, left, window, first);
  multiply_span<N, kPitch, 48, kSpan - 48>(to, left, window, first);
}

// scores += q · pos_k. For query i of the strip and key j, the distance is row i - j + 63 of the strip's span.
template <class N, int D, class Left>
__device__ void add_content_to_position(float (&scores)[kNs][4], const Left& q, const Window<D>& window,
                                        uint32_t scratch) {
  const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, strip = warp_index() * kStrip;
  const uint32_t own = scratch + strip * kQueryPitch * 4;
  multiply_window<N, kQueryPitch>(own, q, window, strip);
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kNs; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t row = g + half * 8;
      const float2 two = cuda::load_shared_pair(own + (row * (kQueryPitch + 1) + kTile - 2 - 2 * t - 8 * n) * 4);
      scores[n][2 * half] += two.y;
      scores[n][2 * half + 1] += two.x;
    }
  }
}

// scores += k · pos_q. Every warp multiplies a strip of keys. For query i of the tile and key j of a strip, the
// distance is row i - j + 15 of that strip's span. Overwrites the warps' data in `scratch`.
template <class N, int D>
__device__ void add_position_to_content(float (&scores)[kNs][4], uint32_t k_tile, const Window<D>& window,
                                        uint32_t scratch) {
  const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, strip = warp_index() * kStrip;
  const LeftRows<D, 1, false> k(k_tile, strip);
  __syncthreads();
  multiply_window<N, kKeyPitch>(scratch + strip * kKeyPitch * 4, k, window, kTile - kStrip - strip);
  __syncthreads();
  const uint32_t at = scratch + (strip + g + kStrip - 1 + 2 * t * (kKeyPitch - 1)) * 4;
#pragma unroll
  for (int n = 0; n < kNs; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const uint32_t key = n * 8 + e % 2, within = n % 2 * 8 + e % 2;  // without the lane's 2 t
      scores[n][e] += load_shared_float(at + (key * kKeyPitch - within + e / 2 * 8) * 4);
    }
  }
}

// The scores of the warp's queries and all keys, without `scale`. On return, other warps may still be reading
// `scratch`.
template <class N, int D, class Left>
__device__ void tile_scores(float (&scores)[1][kNs][4], const PositionParams<N>& p, const Left& q, uint32_t k_tile,
                            const Window<D>& window_k, const Window<D>& window_q, uint32_t scratch) {
  multiply_transposed<N>(scores, q, k_tile, lanes_of_pair<D>());
  if (p.pos_k.data != nullptr) add_content_to_position<N>(scores[0], q, window_k, scratch);
  if (p.pos_q.data != nullptr) add_position_to_content<N>(scores[0], k_tile, window_q, scratch);
}

// Masks the keys from `keys` on, which do not exist.
__device__ inline void mask_keys(float (&scores)[kNs][4], int keys) {
  const int first = int(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int i = 0; i < 4 * kNs; ++i) {
    if (first + i / 4 * 8 + i % 2 >= keys) scores[i / 4][i % 4] = -INFINITY;
  }
}

}  // namespace gradmill::disentangled
