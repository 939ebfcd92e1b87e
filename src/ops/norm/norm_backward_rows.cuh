// SPDX-License-Identifier: Apache-2.0
// What the kernels of the norms' backward share: rows on their way to shared memory, and sums over the rows of a block.
#pragma once

#include <cuda_pipeline.h>

#include "ops/norm/norm_rows.cuh"

namespace gradmill {
namespace {

constexpr int kBackwardThreads = 512;  // one block a multiprocessor: 128 registers a thread

template <class N>
struct BackwardRows {
  const N* sum;
  int64_t sum_stride;
  const N* dy;
  int64_t dy_stride;
  const N* residual;  // or null
  int64_t residual_stride;
  N* dx;
  int64_t dx_stride;
  const N* weight;
  const float *mean, *rstd;
  float *dweight, *dbias, *dbranch_bias;  // (chunks, cols), or null
  int rows, cols, chunk_rows;
  float weight_offset;
  bool centered, two_stages;
  N* y;  // or null
  int64_t y_stride;
  const N* bias;  // or null
  N* dropped;     // or null
  int64_t dropped_stride;
  const StepScalars* scalars;
  uint32_t dropout_site;
};

// Writes a block's sums over its rows: first the rows of a warp are added, then the warps' (or, of wider rows, groups')
// in order. `tile` has room for 4 bytes an element of every thread, and the block has passed a barrier since it was
// used.
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

// Rows in shared memory: each thread copies, and looks at, its own packs only, so that no barrier is needed.
template <int kPacks>
struct Stages {
  static constexpr int kTensors = 3;
  static constexpr size_t kBytes = size_t{kTensors} * kPacks * kBackwardThreads * sizeof(int4);  // of one
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

// Bytes on their way from global to shared memory; zeros, and nothing is read, where they are not `there`.
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
