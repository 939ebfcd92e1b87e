// SPDX-License-Identifier: Apache-2.0
// Code shared by the cross-entropy kernels for GPUs: the sum of a row's exponentials, and the kernel's parameters.
#pragma once

#include <type_traits>

#include "cuda/numeric.cuh"
#include "cuda/packed.cuh"
#include "ops/cross_entropy/cross_entropy.h"

namespace gradmill {
namespace {

using cuda::Packed;

constexpr float kLowest = -1e30f;  // below any logit, but finite, so that a masked logit (-inf) has weight 0

// exp(x) for x <= 0. Narrow types use the hardware's 2^x, whose error is 2^-22.
template <class N>
__device__ float exponential(float x) {
  if constexpr (std::is_same_v<N, float>) {
    return expf(x);
  } else {
    constexpr float kLog2e = 1.4426950408889634f;
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * kLog2e));
    return y;
  }
}

// The sum of exp(x - max) over the elements added so far; NaN or infinity makes it NaN.
template <class N>
struct ExpSum {
  float max = kLowest, sum = 0;

  template <int kCount>
  __device__ void add(const float (&x)[kCount]) {
    float larger = max;
#pragma unroll
    for (int i = 0; i < kCount; ++i) larger = fmaxf(larger, x[i]);
    sum *= exponential<N>(max - larger);
    max = larger;
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum += exponential<N>(x[i] - max);
  }

  __device__ void add(float2 other) {
    const float larger = fmaxf(max, other.x);
    sum = sum * exponential<N>(max - larger) + other.y * exponential<N>(other.x - larger);
    max = larger;
  }

  // Combines the sums of all lanes of the warp; all of them receive the result.
  __device__ void add_lanes() {
    const float largest = cuda::warp_reduce(max, cuda::Max{});
    sum = cuda::warp_reduce(sum * exponential<N>(max - largest), cuda::Sum{});
    max = largest;
  }

  // Combines the sums of all threads of the row's kBlocks blocks; all of them receive the result. Each warp sends its
  // sum to every block. `shared` has space for one value per warp. The blocks of a cluster must have arrived once
  // before: cluster_arrive_started.
  template <int kBlocks>
  __device__ void add_threads(float2* shared) {
    const int warps = static_cast<int>(blockDim.x) / cuda::kWarpSize;
    const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
    const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
    add_lanes();
    if constexpr (kBlocks == 1) {
      if (lane == 0) shared[warp] = {max, sum};
      __syncthreads();
    } else {
      cuda::cluster_wait();
      const int rank = static_cast<int>(blockIdx.x) % kBlocks;
      if (lane < kBlocks) cuda::store_to_block(shared + rank * warps + warp, lane, {max, sum});
      cuda::cluster_arrive();
      cuda::cluster_wait();
    }
    *this = {};
    for (int i = lane; i < kBlocks * warps; i += cuda::kWarpSize) add(shared[i]);
    add_lanes();
  }
};

template <class N>
struct Problem {
  N* logits;
  int64_t stride;
  int size;
  int share;  // packs of a row per block
  int room;   // number of packs that fit in shared memory
  const int32_t* targets;
  float* losses;
  bool write_grad;
  const StepScalars* scalars;
  const float* weights;  // read by kernels of weighted rows alone
};

template <class T>
Problem<cuda::Native<T>> problem_of(const ExecContext& ctx, const CrossEntropyArgs& args) {
  return {.logits = cuda::native<T>(args.logits),
          .stride = args.logits.row_stride,
          .size = static_cast<int>(args.logits.cols()),
          .share = 0,
          .room = 0,
          .targets = args.targets.ptr<int32_t>(),
          .losses = args.losses.ptr<float>(),
          .write_grad = args.write_grad,
          .scalars = ctx.scalars,
          .weights = args.weights.defined() ? args.weights.ptr<float>() : nullptr};
}

}  // namespace
}  // namespace gradmill
