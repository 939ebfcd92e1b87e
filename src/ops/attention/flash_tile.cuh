// SPDX-License-Identifier: Apache-2.0
// Tiles of 16-bit rows with D elements in shared memory, and the products of flash attention over them. A row consists
// of chunks of 16 bytes, permuted by the row's number such that eight rows of one column of chunks are in different
// banks: ldmatrix, copies and stores have no bank conflicts.
#pragma once

#include "cuda/mma.cuh"
#include "ops/attention/flash_params.cuh"

namespace gradmill::flash {

template <int D>
struct Tile {
  static_assert(D % 32 == 0);
  static constexpr int kRowBytes = 2 * D, kChunks = D / 8;

  __device__ static constexpr uint32_t swizzle(uint32_t row) { return D % 64 == 0 ? row & 7 : (row >> 1) & 3; }
  __device__ static constexpr uint32_t offset(uint32_t row, uint32_t chunk) {
    return row * kRowBytes + (chunk ^ swizzle(row)) * 16;
  }
};

// The address of a lane's row in an ldmatrix. Computed once; then only constants are added.
template <int D>
class LaneOffset {
 public:
  __device__ LaneOffset(uint32_t row, uint32_t chunk)
      : row_(row * Tile<D>::kRowBytes), mix_((chunk ^ Tile<D>::swizzle(row)) * 16) {}
  // `row` must be a multiple of 8, `chunk` of 2.
  __device__ uint32_t at(uint32_t tile, uint32_t row, uint32_t chunk) const {
    return tile + row * Tile<D>::kRowBytes + row_ + (chunk * 16 ^ mix_);
  }

 private:
  uint32_t row_, mix_;
};

// Loads 16 rows x 16 columns as the left operand or, transposed, as the right one (rows are then the inner dimension).
template <int D>
__device__ LaneOffset<D> lanes_of_square() {
  const uint32_t lane = threadIdx.x % 32;
  return {lane % 16, lane / 16};
}
// Loads 16 rows x 16 columns as a right operand whose inner dimension is the columns.
template <int D>
__device__ LaneOffset<D> lanes_of_pair() {
  const uint32_t lane = threadIdx.x % 32;
  return {lane % 8 + lane / 16 * 8, lane / 8 % 2};
}

template <class N>
__device__ uint4 gather_chunk(const N* from, int count) {
  uint16_t bits[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) bits[i] = i < count ? reinterpret_cast<const uint16_t*>(from)[i] : 0;
  const auto pair = [&](int i) { return uint32_t(bits[i]) | uint32_t(bits[i + 1]) << 16; };
  return make_uint4(pair(0), pair(2), pair(4), pair(6));
}

// Starts loading kRows rows of `cols` elements, with zeros for rows from `rows` on and columns from `cols` on. `thread`
// is threadIdx.x, for callers that want to control when it is read.
template <int D, int kRows, int kThreads, class N>
__device__ void load_tile(uint32_t to, const N* from, int64_t stride, int rows, int cols, bool vectors,
                          int thread = int(threadIdx.x)) {
  constexpr int kChunks = Tile<D>::kChunks;
  static_assert(kRows * kChunks % kThreads == 0);
  constexpr int kRowsAtOnce = kThreads / kChunks;
  if (vectors && kThreads % kChunks == 0 && kRowsAtOnce % 8 == 0) {
    // A thread stays in one column of chunks and all its rows have the same permutation, so that all addresses are
    // sums.
    const int first = thread / kChunks, chunk = thread % kChunks;
    const N* at = from + first * stride + chunk * 8;
    const uint32_t start = to + Tile<D>::offset(first, chunk);
    const int left = chunk * 8 < cols ? rows - first : 0;
#pragma unroll
    for (int row = 0; row < kRows; row += kRowsAtOnce, at += kRowsAtOnce * stride) {
      cuda::copy_async<16>(start + row * Tile<D>::kRowBytes, at, row < left);
    }
  } else if (vectors) {
#pragma unroll
    for (int step = 0; step < kRows * kChunks / kThreads; ++step) {
      const int i = step * kThreads + thread, row = i / kChunks, chunk = i % kChunks;
      const bool there = row < rows && chunk * 8 < cols;
      cuda::copy_async<16>(to + Tile<D>::offset(row, chunk), from + row * stride + chunk * 8, there);
    }
  } else {
#pragma unroll 1
    for (int i = thread; i < kRows * kChunks; i += kThreads) {
      const int row = i / kChunks, chunk = i % kChunks;
      const int count = row < rows ? cols - chunk * 8 : 0;
      cuda::store_shared(to + Tile<D>::offset(row, chunk), gather_chunk(from + row * stride + chunk * 8, count));
    }
  }
}

// A warp writes its accumulators as rows of a tile, from chunk 0 on, and stores `rows` of them to memory. Only this
// warp may be using these rows of the tile.
template <int D, class N, int kMs, int kNs>
__device__ void store_rows(uint32_t tile, uint32_t first_row, const float (&acc)[kMs][kNs][4], N* to, int64_t stride,
                           int rows, int cols, bool vectors) {
  const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  __syncwarp();
#pragma unroll
  for (int m = 0; m < kMs; ++m) {
#pragma unroll
    for (int n = 0; n < kNs; ++n) {
      const uint32_t row = first_row + m * 16 + g;
      cuda::store_shared(tile + Tile<D>::offset(row, n) + 4 * t, cuda::pack_pair<N>(acc[m][n][0], acc[m][n][1]));
      cuda::store_shared(tile + Tile<D>::offset(row + 8, n) + 4 * t, cuda::pack_pair<N>(acc[m][n][2], acc[m][n][3]));
    }
  }
  __syncwarp();
#pragma unroll 4
  for (int i = int(lane); i < kMs * 16 * kNs; i += 32) {
    const int row = i / kNs, chunk = i % kNs;
    if (row >= rows || chunk * 8 >= cols) continue;
    const uint4 bits = cuda::load_shared_16(tile + Tile<D>::offset(first_row + row, chunk));
    N* at = to + row * stride + chunk * 8;
    if (vectors) {
      *reinterpret_cast<uint4*>(at) = bits;
    } else {
      const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (chunk * 8 + e < cols) reinterpret_cast<uint16_t*>(at)[e] = uint16_t(words[e / 2] >> (e % 2 * 16));
      }
    }
  }
}

// The left operand of a product: kMs x 16 rows of a tile, kept in registers or read again for every use.
template <int D, int kMs, bool kHeld>
class LeftRows {
 public:
  __device__ LeftRows(uint32_t tile, uint32_t first_row)
      : tile_(tile + first_row * Tile<D>::kRowBytes), lanes_(lanes_of_square<D>()) {}
  // Call it once the tile has arrived.
  __device__ void hold() {
    if constexpr (kHeld) {
#pragma unroll
      for (int k = 0; k < D / 16; ++k) {
#pragma unroll
        for (int m = 0; m < kMs; ++m) cuda::load_matrices(held_[m][k], lanes_.at(tile_, m * 16, 2 * k));
      }
    }
  }
  __device__ void get(int m, int k, uint32_t (&to)[4]) const {
    if constexpr (kHeld) {
#pragma unroll
      for (int i = 0; i < 4; ++i) to[i] = held_[m][k][i];
    } else {
      cuda::load_matrices(to, lanes_.at(tile_, m * 16, 2 * k));
    }
  }

 private:
  uint32_t tile_;
  LaneOffset<D> lanes_;
  uint32_t held_[kHeld ? kMs : 1][kHeld ? D / 16 : 1][4];
};

// acc (kMs * 16, kNs * 8) = left · rightᵀ over all columns. Left is LeftRows or similar.
template <class N, int D, int kMs, int kNs, class Left>
__device__ void multiply_transposed(float (&acc)[kMs][kNs][4], const Left& left, uint32_t right,
                                    const LaneOffset<D>& lanes) {
#pragma unroll
  for (int m = 0; m < kMs; ++m) {
#pragma unroll
    for (int n = 0; n < kNs; ++n) acc[m][n][0] = acc[m][n][1] = acc[m][n][2] = acc[m][n][3] = 0;
  }
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    uint32_t a[kMs][4];
#pragma unroll
    for (int m = 0; m < kMs; ++m) left.get(m, k, a[m]);
#pragma unroll
    for (int n = 0; n < kNs; n += 2) {
      uint32_t b[4];
      cuda::load_matrices(b, lanes.at(right, n * 8, 2 * k));
#pragma unroll
      for (int m = 0; m < kMs; ++m) {
        cuda::mma<N>(acc[m][n], a[m], b[0], b[1]);
        cuda::mma<N>(acc[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// acc (kMs * 16, kNs * 8) += left · columns [8 * chunk, 8 * (chunk + kNs)) of the first kKs * 16 rows of `right`.
// Accumulators beyond kMs are unchanged.
template <class N, int D, int kAccs, int kMs, int kKs, int kNs>
__device__ void multiply_add(float (&acc)[kAccs][kNs][4], const uint32_t (&left)[kMs][kKs][4], uint32_t right,
                             const LaneOffset<D>& lanes, uint32_t chunk = 0) {
  static_assert(kMs <= kAccs);
#pragma unroll
  for (int k = 0; k < kKs; ++k) {
#pragma unroll
    for (int n = 0; n < kNs; n += 2) {
      uint32_t b[4];
      cuda::load_matrices_transposed(b, lanes.at(right, k * 16, chunk + n));
#pragma unroll
      for (int m = 0; m < kMs; ++m) {
        cuda::mma<N>(acc[m][n], left[m][k], b[0], b[1]);
        cuda::mma<N>(acc[m][n + 1], left[m][k], b[2], b[3]);
      }
    }
  }
}

// Converts accumulators to the left operand of the next product. The layouts match, so lanes exchange nothing.
template <class N, int kMs, int kNs>
__device__ void to_left(const float (&acc)[kMs][kNs][4], uint32_t (&left)[kMs][kNs / 2][4]) {
#pragma unroll
  for (int m = 0; m < kMs; ++m) {
#pragma unroll
    for (int k = 0; k < kNs / 2; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&from)[4] = acc[m][2 * k + i / 2];
        left[m][k][i] = cuda::pack_pair<N>(from[i % 2 * 2], from[i % 2 * 2 + 1]);
      }
    }
  }
}

}  // namespace gradmill::flash
