// SPDX-License-Identifier: Apache-2.0
// The second half of a reduction over rows: cpu::add_partials of cpu/reduce.h on the device.
#pragma once

#include <cstdint>
#include <utility>

#include "cuda/launch.h"
#include "cuda/reduce.cuh"

namespace gradmill::cuda {

// out (size) = sum of partials (count, size), in an order of its own that depends on count alone, + beta * out.
struct PartialSums {
  const float* partials = nullptr;
  float* out = nullptr;  // null: nothing to do
  float beta = 0;
};

namespace {

// A block has 32 columns. Each of its warps adds every 32nd row of partials, a line at a time; then each warp adds what
// the warps have for one column.
__global__ void __launch_bounds__(1024)
    add_partials_kernel(PartialSums first, PartialSums second, PartialSums third, int64_t count, int64_t size) {
  __shared__ float sums[kWarpSize][kWarpSize + 1];
  const PartialSums job = blockIdx.y == 0 ? first : blockIdx.y == 1 ? second : third;
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int64_t begin = int64_t{blockIdx.x} * kWarpSize;
  float sum = 0;
  if (begin + lane < size) {
#pragma unroll 4
    for (int64_t part = warp; part < count; part += kWarpSize) sum += job.partials[part * size + begin + lane];
  }
  sums[warp][lane] = sum;
  __syncthreads();
  const float total = warp_reduce(sums[lane][warp], Sum{});
  const int64_t column = begin + warp;
  if (lane == 0 && column < size) job.out[column] = job.beta == 0 ? total : total + job.beta * job.out[column];
}

// One launch for all sums of a row reduction: there are microseconds to lose here, the data is small.
inline void add_partials(cudaStream_t stream, int64_t count, int64_t size, PartialSums first, PartialSums second = {},
                         PartialSums third = {}) {
  if (second.out == nullptr) std::swap(second, third);
  if (first.out == nullptr) std::swap(first, second);
  if (second.out == nullptr) std::swap(second, third);
  if (first.out == nullptr || size == 0) return;
  const unsigned jobs = third.out != nullptr ? 3 : second.out != nullptr ? 2 : 1;
  const dim3 grid(static_cast<unsigned>((size + kWarpSize - 1) / kWarpSize), jobs);
  launch(LaunchConfig{grid, dim3(kWarpSize, kWarpSize), stream}, add_partials_kernel, first, second, third, count,
         size);
}

}  // namespace
}  // namespace gradmill::cuda
