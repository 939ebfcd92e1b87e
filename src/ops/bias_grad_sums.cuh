// SPDX-License-Identifier: Apache-2.0
// Column sums of a chunk of rows by a block of 8 warps, in the same order for all kernels that need them. A lane sums
// its columns. The warps take the rows of the chunk in turn, two at a time, and their sums are added at the end.
#pragma once

#include <cstdint>

#include "cuda/packed.cuh"
#include "cuda/reduce.cuh"

namespace gradmill {
namespace {

constexpr int kBiasWarps = 8;

template <class N, int kPack>
class ColumnSums {
 public:
  static constexpr int kColumns = cuda::kWarpSize * kPack;  // columns per block

  // The two rows are 8 apart; a missing row is passed as 0.
  __device__ void add(const cuda::Packed<N, kPack>& first, const cuda::Packed<N, kPack>& second) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum_[i] += first[i] + second[i];
  }
  // Adds to column i of this lane only.
  __device__ void add_product(int i, float a, float b) { sum_[i] = fmaf(a, b, sum_[i]); }
  __device__ void scale(int i, float factor) { sum_[i] *= factor; }
  // Called by all threads of the block. Writes the sums to out[0 .. columns).
  __device__ void write(float* out, int64_t columns) const {
    __shared__ float sums[kBiasWarps][kColumns];
    const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sums[warp][lane * kPack + i] = sum_[i];
    __syncthreads();
    for (int c = warp * cuda::kWarpSize + lane; c < kColumns && c < columns; c += kBiasWarps * cuda::kWarpSize) {
      float total = 0;
#pragma unroll
      for (int w = 0; w < kBiasWarps; ++w) total += sums[w][c];
      out[c] = total;
    }
  }

 private:
  float sum_[kPack] = {};
};

// The grid for (chunks, cols), in memory order.
template <int kPack>
dim3 column_sum_grid(int64_t cols, int64_t chunks) {
  const int64_t columns = cuda::kWarpSize * kPack;
  return dim3(static_cast<unsigned>((cols + columns - 1) / columns), static_cast<unsigned>(chunks));
}

}  // namespace
}  // namespace gradmill
