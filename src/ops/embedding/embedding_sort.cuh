// SPDX-License-Identifier: Apache-2.0
// Sorts rows by the entry they use, stably: a radix sort with 8 bits per pass and two kernels per pass. There are few
// rows and few passes (two for 65536 entries), so what counts is the number of launches.
#pragma once

#include <bit>
#include <utility>

#include "cuda/launch.h"
#include "cuda/reduce.cuh"
#include "ops/embedding/embedding.h"

namespace gradmill {
namespace {

constexpr int kDigits = kEmbeddingDigits, kSortThreads = 256, kSortWarps = kSortThreads / cuda::kWarpSize;
constexpr int kPerWarp = kEmbeddingTile / kSortWarps;
static_assert(kDigits == kSortThreads && kPerWarp % cuda::kWarpSize == 0);

__device__ inline int digit_of(int entry, int shift) { return (entry >> shift) & (kDigits - 1); }

// counts (tiles, kDigits): the number of times each digit occurs in a tile.
__global__ void __launch_bounds__(kSortThreads)
    count_digits_kernel(const int32_t* __restrict__ entries, int64_t size, int shift, int32_t* __restrict__ counts) {
  __shared__ int histogram[kDigits];
  histogram[threadIdx.x] = 0;
  __syncthreads();
  const int64_t begin = int64_t{blockIdx.x} * kEmbeddingTile, end = min(begin + kEmbeddingTile, size);
#pragma unroll 4
  for (int64_t i = begin + threadIdx.x; i < end; i += kSortThreads) {
    atomicAdd(&histogram[digit_of(entries[i], shift)], 1);
  }
  __syncthreads();
  counts[int64_t{blockIdx.x} * kDigits + threadIdx.x] = histogram[threadIdx.x];
}

// The sum of the values of all earlier threads.
__device__ inline int sum_before(int value, int* shared) {
  const int lane = threadIdx.x % cuda::kWarpSize, warp = threadIdx.x / cuda::kWarpSize;
  int sum = value;
#pragma unroll
  for (int offset = 1; offset < cuda::kWarpSize; offset *= 2) {
    const int below = __shfl_up_sync(0xffffffffu, sum, offset);
    if (lane >= offset) sum += below;
  }
  if (lane == cuda::kWarpSize - 1) shared[warp] = sum;
  __syncthreads();
  for (int w = 0; w < warp; ++w) sum += shared[w];
  return sum - value;
}

struct SortPass {
  const int32_t *entries_in, *rows_in;  // rows_in null: row i is i
  int32_t *entries_out, *rows_out;
  const int32_t* counts;
  int64_t size;
  int shift;
};

// Each warp takes its rows of the tile in order, 32 at a time. Equal digits among the 32 are ranked by lane.
__global__ void __launch_bounds__(kSortThreads) scatter_digits_kernel(const SortPass pass) {
  __shared__ int next[kSortWarps][kDigits];  // first the counts, then the destination of a warp's next row with a digit
  __shared__ int shared[kSortWarps];
  const int lane = threadIdx.x % cuda::kWarpSize, warp = threadIdx.x / cuda::kWarpSize, digit = threadIdx.x;
  const int64_t begin = int64_t{blockIdx.x} * kEmbeddingTile + warp * kPerWarp;
  for (int w = 0; w < kSortWarps; ++w) next[w][digit] = 0;
  __syncthreads();
  for (int i = lane; i < kPerWarp; i += cuda::kWarpSize) {
    if (begin + i < pass.size) atomicAdd(&next[warp][digit_of(pass.entries_in[begin + i], pass.shift)], 1);
  }
  // Thread d: the number of rows with digit d in all tiles, and in earlier tiles.
  int total = 0, before = 0;
#pragma unroll 8
  for (unsigned tile = 0; tile < gridDim.x; ++tile) {
    const int count = pass.counts[int64_t{tile} * kDigits + digit];
    total += count;
    before += tile < blockIdx.x ? count : 0;
  }
  int start = sum_before(total, shared) + before;  // its barrier also ends the counting above
  for (int w = 0; w < kSortWarps; ++w) {
    const int count = next[w][digit];
    next[w][digit] = start;
    start += count;
  }
  __syncthreads();
  for (int i = lane; i < kPerWarp; i += cuda::kWarpSize) {
    const int64_t from = begin + i;
    const bool valid = from < pass.size;
    const int entry = valid ? pass.entries_in[from] : 0;
    const int mine = valid ? digit_of(entry, pass.shift) : kDigits;
    const unsigned same = __match_any_sync(0xffffffffu, mine);
    const int rank = __popc(same & ((1u << lane) - 1));
    if (valid) {
      const int64_t to = next[warp][mine] + rank;
      pass.entries_out[to] = entry;
      pass.rows_out[to] = pass.rows_in != nullptr ? pass.rows_in[from] : static_cast<int32_t>(from);
    }
    __syncwarp();
    if (valid && rank == 0) next[warp][mine] += __popc(same);
    __syncwarp();
  }
}

struct SortedRows {
  const int32_t *entries, *rows;
};

// `buffers` (4, size) int32, `counts` (tiles, kDigits) int32.
inline SortedRows sort_rows(cudaStream_t stream, const int32_t* entries, int64_t size, int64_t num_entries,
                            int32_t* buffers, int32_t* counts) {
  const auto tiles = static_cast<unsigned>((size + kEmbeddingTile - 1) / kEmbeddingTile);
  const int bits = std::bit_width(static_cast<uint64_t>(num_entries - 1));
  int32_t *to = buffers, *other = buffers + 2 * size;
  SortPass pass{.entries_in = entries, .rows_in = nullptr, .counts = counts, .size = size, .shift = 0};
  do {
    pass.entries_out = to;
    pass.rows_out = to + size;
    cuda::launch({tiles, kSortThreads, stream}, count_digits_kernel, pass.entries_in, size, pass.shift, counts);
    cuda::launch({tiles, kSortThreads, stream}, scatter_digits_kernel, pass);
    pass.entries_in = pass.entries_out;
    pass.rows_in = pass.rows_out;
    std::swap(to, other);
    pass.shift += std::bit_width(unsigned{kDigits} - 1);
  } while (pass.shift < bits);
  return {pass.entries_in, pass.rows_in};
}

}  // namespace
}  // namespace gradmill
