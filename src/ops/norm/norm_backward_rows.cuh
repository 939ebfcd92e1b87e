// SPDX-License-Identifier: Apache-2.0
// Code shared by the kernels of the norms' backward: rows loaded to shared memory, and sums over the rows of a block.
#pragma once

#include <cuda_pipeline.h>

#include "ops/norm/norm_rows.cuh"

namespace gradmill {
namespace {

constexpr int kBackwardThreads = 512;  // one block per multiprocessor: 128 registers per thread

template <class N>
struct BackwardRows {
  const N* sum;
  int64_t sum_stride;
  const N* dy;
  int64_t dy_stride;
  const N* residual;  // may be null
  int64_t residual_stride;
  N* dx;
  int64_t dx_stride;
  const N* weight;
  const float *mean, *rstd;
  float *dweight, *dbias, *dbranch_bias;  // (chunks, cols); may be null
  int rows, cols, chunk_rows;
  float weight_offset;
  bool centered, two_stages;
  N* y;  // may be null
  int64_t y_stride;
  const N* bias;  // may be null
  N* dropped;     // may be null
  int64_t dropped_stride;
  const StepScalars* scalars;
  uint32_t dropout_site;
};

// Writes a block's sums over its rows. First adds the rows of a warp, then those of the warps (for wider rows: of
// groups of warps) in order. `tile` has space for 4 bytes per element of every thread; the block must have passed a
// barrier since its last use.
template <int kLanes, int kPacks, int kSize>
__device__ void write_partials(const float (&sums)[kPacks][kSize], int cols, float* tile, float* out) {
  constexpr int kWidth = kLanes < cuda::kWarpSize ? cuda::kWarpSize : kLanes, kSlots = kBackwardThreads / kWidth;
  constexpr int kColumns = kLanes * kPacks * kSize;
  const int thread = static_cast<int>(threadIdx.x);
  float* slot = tile + thread / kWidth * kColumns;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    float total[kSize];
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      total[i] = sums[p][i];
#pragma unroll
      for (int lanes = kLanes; lanes < cuda::kWarpSize; lanes *= 2) {
        total[i] += __shfl_xor_sync(0xffffffffu, total[i], lanes);
      }
    }
    if (thread % kWidth >= kLanes) continue;
    auto* to = reinterpret_cast<float4*>(slot + (p * kLanes + thread % kLanes) * kSize);
#pragma unroll
    for (int i = 0; i < kSize; i += 4) to[i / 4] = make_float4(total[i], total[i + 1], total[i + 2], total[i + 3]);
  }
  __syncthreads();
  for (int c = thread; c < cols; c += kBackwardThreads) {
    float total = 0;
#pragma unroll
    for (int k = 0; k < kSlots; ++k) total += tile[k * kColumns + c];
    out[c] = total;
  }
}

// Rows in shared memory. Each thread copies and reads only its own packs, so that no barrier is needed.
template <int kPacks>
struct Stages {
  static constexpr int kTensors = 3;
  static constexpr size_t kBytes = size_t{kTensors} * kPacks * kBackwardThreads * sizeof(int4);  // size of one stage
  int4* memory;

  __device__ int4* at(int stage, int tensor, int p) const {
    return memory + ((stage * kTensors + tensor) * kPacks + p) * kBackwardThreads + threadIdx.x;
  }
  template <class N>
  __device__ Packed<N> load(int stage, int tensor, int p) const {
    return Packed<N>::load(reinterpret_cast<const N*>(at(stage, tensor, p)));
  }
  template <class N>
  __device__ void store(int stage, int tensor, int p, const Packed<N>& pack) const {
    *reinterpret_cast<uint4*>(at(stage, tensor, p)) = {pack.words[0], pack.words[1], pack.words[2], pack.words[3]};
  }
};

// Starts copying bytes from global to shared memory. If not `there`, writes zeros and reads nothing.
template <int kBytes>
__device__ void copy_ahead(void* to, const void* from, bool there) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
  } else {
    static_assert(kBytes == 4);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(there ? 4 : 0)
                 : "memory");
  }
#else
  using Word = std::conditional_t<kBytes == 16, int4, int>;
  *static_cast<Word*>(to) = there ? *static_cast<const Word*>(from) : Word{};
#endif
}

}  // namespace
}  // namespace gradmill
