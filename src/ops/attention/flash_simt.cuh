// SPDX-License-Identifier: Apache-2.0
// Tiles of 64 x 64 fp32 numbers in shared memory and their products, for attention without matrix units. Of 256
// threads, thread (ty, tx) in 16 x 16 holds rows 4 * ty .. and columns 4 * tx .. of an accumulator.
#pragma once

#include "cuda/reduce.cuh"
#include "ops/attention/flash_dropout.cuh"

namespace gradmill::flash {

// Rows are padded so that the elements of a column are in different banks, and rows still start at multiples of 16
// bytes.
inline constexpr int kSide = 64, kPitch = kSide + 4, kSimtThreads = 256;
using Block = float[4][4];

struct SimtTile {
  float values[kSide * kPitch];
};

__device__ inline int tile_x() { return int(threadIdx.x) % 16; }
__device__ inline int tile_y() { return int(threadIdx.x) / 16; }

// Loads rows and columns of one head from `from` on, with zeros where there are none. The caller must put barriers
// around.
template <bool kTransposed, class N>
__device__ void load_simt(SimtTile& to, const N* from, int64_t stride, int rows, int cols) {
#pragma unroll 4
  for (int i = int(threadIdx.x); i < kSide * kSide; i += kSimtThreads) {
    const int row = i / kSide, col = i % kSide;
    const float value = row < rows && col < cols ? cuda::to_float(from[row * stride + col]) : 0;
    to.values[kTransposed ? col * kPitch + row : row * kPitch + col] = value;
  }
}

// c += aᵀ · b over `inner` rows of both.
__device__ inline void multiply_simt(Block& c, const SimtTile& a, const SimtTile& b, int inner) {
  const float *left = a.values + 4 * tile_y(), *right = b.values + 4 * tile_x();
#pragma unroll 8
  for (int k = 0; k < inner; ++k) {
    const float4 x = *reinterpret_cast<const float4*>(left + k * kPitch);
    const float4 y = *reinterpret_cast<const float4*>(right + k * kPitch);
    const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) c[i][j] = fmaf(xs[i], ys[j], c[i][j]);
    }
  }
}

template <bool kTransposed>
__device__ void store_block(SimtTile& to, const Block& from) {
  const int x = 4 * tile_x(), y = 4 * tile_y();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float4 value = kTransposed ? make_float4(from[0][i], from[1][i], from[2][i], from[3][i])
                                     : make_float4(from[i][0], from[i][1], from[i][2], from[i][3]);
    *reinterpret_cast<float4*>(to.values + (kTransposed ? (x + i) * kPitch + y : (y + i) * kPitch + x)) = value;
  }
}

// scores (64 rows of `a`, 64 rows of `b`) = a · bᵀ over the head.
template <class N>
__device__ void multiply_heads(Block& scores, SimtTile& left, SimtTile& right, const N* a, int64_t a_stride, int a_rows,
                               const N* b, int64_t b_stride, int b_rows, int head_dim) {
#pragma unroll
  for (int i = 0; i < 16; ++i) scores[i / 4][i % 4] = 0;
  for (int col = 0; col < head_dim; col += kSide) {
    __syncthreads();
    load_simt<true>(left, a + col, a_stride, a_rows, head_dim - col);
    load_simt<true>(right, b + col, b_stride, b_rows, head_dim - col);
    __syncthreads();
    multiply_simt(scores, left, right, min(kSide, head_dim - col));
  }
}

// acc[c] += leftᵀ · chunk c of the columns of `b`, over 64 rows.
template <int kChunks, class N>
__device__ void multiply_columns(float (&acc)[kChunks][4][4], const SimtTile& left, SimtTile& right, const N* b,
                                 int64_t stride, int rows, int head_dim) {
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    __syncthreads();
    load_simt<false>(right, b + c * kSide, stride, rows, head_dim - c * kSide);
    __syncthreads();
    multiply_simt(acc[c], left, right, kSide);
  }
}

// Stores this thread's rows of all columns of one head, times `factors`.
template <int kChunks, class N>
__device__ void store_columns(const float (&acc)[kChunks][4][4], const float (&factors)[4], N* to, int64_t stride,
                              int rows, int head_dim) {
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int row = 4 * tile_y() + i, col = c * kSide + 4 * tile_x() + j;
        if (row < rows && col < head_dim) to[row * stride + col] = cuda::from_float<N>(acc[c][i][j] * factors[i]);
      }
    }
  }
}

// Bit i tells whether the weight at this row and column + i is kept, for four columns; `column` is a multiple of 4.
__device__ inline uint32_t keep_columns(const Dropout& dropout, uint32_t row, uint32_t column) {
  return dropout.on() ? dropout.keep_eight(row, column / 8) >> column % 8 : ~0u;
}

}  // namespace gradmill::flash
