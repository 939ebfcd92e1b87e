// SPDX-License-Identifier: Apache-2.0
// Cross-entropy on a GPU: a block a row. The row is read once, kept in shared memory where it fits, and its gradient
// written in its place: 4 bytes an element in bf16. A row of 32768 then takes 6800 cycles of one multiprocessor's share
// of an H200's memory and 4100 of its exponential unit (two exponentials an element), so three rows at a time, each
// in another phase, keep the memory busy.
#include "ops/cross_entropy.h"

#include <cuda_pipeline.h>

#include <algorithm>
#include <type_traits>

#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/numeric.cuh"
#include "cuda/reduce.cuh"

namespace gradmill {
namespace {

using cuda::Pack;

constexpr float kLowest = -1e30f;  // below any logit, yet finite: a masked logit (-inf) then weighs nothing

// exp(x) for x <= 0. Narrow types take the hardware's 2^x: its error is 2^-22.
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

// The sum of exp(x - max) over what was added so far; NaN and infinity make it NaN.
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

  // Of all threads of the block, to all of them.
  __device__ void add_threads(float* shared) {
    const float largest = cuda::block_reduce(max, cuda::Max{}, kLowest, shared);
    sum = cuda::block_reduce(sum * exponential<N>(max - largest), cuda::Sum{}, 0.0f, shared);
    max = largest;
  }
};

// A row as 16-byte packs and the elements before and after them, of which each thread takes at most one: rows of an odd
// vocabulary begin anywhere.
template <class N>
struct Row {
  static constexpr int kPack = Pack<N>::kSize;
  N* body;
  N* edge;  // this thread's, or null
  int packs;

  __device__ Row(N* row, int size) {
    const int past = static_cast<int>(reinterpret_cast<uintptr_t>(row) % 16 / sizeof(N));
    const int head = min(size, (kPack - past) % kPack), thread = static_cast<int>(threadIdx.x);
    body = row + head;
    packs = (size - head) / kPack;
    const int index = thread < head ? thread : thread + packs * kPack;
    edge = index < size ? row + index : nullptr;
  }

  // visit(pack index, pack) for this thread's packs, which `load` gets: kBatch of them before the first is used.
  template <int kBatch, class Load, class Visit>
  __device__ void for_each(Load&& load, Visit&& visit) const {
    const int threads = static_cast<int>(blockDim.x);
    for (int first = static_cast<int>(threadIdx.x); first < packs; first += kBatch * threads) {
      Pack<N> batch[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (first + i * threads < packs) batch[i] = load(first + i * threads);
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (first + i * threads < packs) visit(first + i * threads, batch[i]);
      }
    }
  }

  // This thread's of the first `count` packs into shared memory, without a detour through registers: all of them are on
  // their way at once.
  __device__ void keep(Pack<N>* kept, int count) const {
    for (int p = threadIdx.x; p < count; p += blockDim.x) {
      __pipeline_memcpy_async(kept + p, body + p * kPack, sizeof(Pack<N>));
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
  }
};

template <class N>
struct Problem {
  N* logits;
  int64_t stride;
  int size;
  int room;  // packs that shared memory holds
  const int32_t* targets;
  float* losses;
  bool write_grad;
  const StepScalars* scalars;
};

template <class N>
__device__ void clear(const Row<N>& row) {
  Pack<N> zero;
  for (int i = 0; i < Pack<N>::kSize; ++i) zero.set(i, 0);
  for (int p = threadIdx.x; p < row.packs; p += blockDim.x) zero.store(row.body + p * Pack<N>::kSize);
  if (row.edge != nullptr) *row.edge = zero.values[0];
}

// Registers for three blocks of 512 threads on a multiprocessor, or one of 1024.
// kKeep: packs are copied to shared memory, as far as there is room; each thread looks at its own only. What is not
// there is read again by the gradient's pass, mostly from the L2 cache.
template <class N, bool kKeep, int kMaxThreads>
__global__ void __maxnreg__(kMaxThreads == 512 ? 40 : 64) cross_entropy_kernel(const Problem<N> problem) {
  constexpr int kPack = Pack<N>::kSize;
  extern __shared__ int4 memory[];
  __shared__ float shared[cuda::kWarpSize];
  Pack<N>* kept = reinterpret_cast<Pack<N>*>(memory);
  N* logits = problem.logits + blockIdx.x * problem.stride;
  float& loss = problem.losses[blockIdx.x];
  const int target = problem.targets[blockIdx.x];
  const Row<N> row(logits, problem.size);
  if (target == kIgnoredTarget) {
    if (threadIdx.x == 0) loss = 0;
    if (problem.write_grad) clear(row);
    return;
  }
  const float chosen = cuda::to_float(logits[target]);

  const int count = kKeep ? min(row.packs, problem.room) : 0;
  if constexpr (kKeep) row.keep(kept, count);
  constexpr int kBatch = kKeep ? 2 : 3;
  const auto load = [&](int p) { return p < count ? kept[p] : Pack<N>::load(row.body + p * kPack); };
  const float edge[1] = {row.edge != nullptr ? cuda::to_float(*row.edge) : -INFINITY};
  ExpSum<N> total;
  total.add(edge);
  row.template for_each<kBatch>(load, [&](int, const Pack<N>& pack) {
    float x[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) x[i] = pack[i];
    total.add(x);
  });
  total.add_threads(shared);
  if (threadIdx.x == 0) loss = logf(total.sum) + (total.max - chosen);
  if (!problem.write_grad) return;

  const float scale = problem.scalars->inv_targets * problem.scalars->loss_scale, factor = scale / total.sum;
  const auto gradient = [&](float x) { return exponential<N>(x - total.max) * factor; };
  row.template for_each<kBatch>(load, [&](int p, const Pack<N>& pack) {
    Pack<N> grad;
#pragma unroll
    for (int i = 0; i < kPack; ++i) grad.set(i, gradient(pack[i]));
    grad.store(row.body + p * kPack);
  });
  if (row.edge != nullptr) *row.edge = cuda::from_float<N>(gradient(edge[0]));
  __syncthreads();
  if (threadIdx.x == 0) {
    logits[target] = cuda::from_float<N>((exponential<N>(chosen - total.max) / total.sum - 1) * scale);
  }
}

// Shared memory that a block may ask for, less what the kernel has of its own.
size_t shared_limit(int compute_capability) {
  const auto kilobytes = [&]() -> size_t {
    if (compute_capability >= 120) return 99;
    if (compute_capability >= 90) return 227;
    if (compute_capability == 80 || compute_capability == 87) return 163;
    return compute_capability >= 86 ? 99 : 64;
  };
  return (kilobytes() - 1) * 1024;
}

constexpr int kSumThreads = 1024;

// One block, each thread its own rows in order, then the threads in order.
__global__ void __launch_bounds__(kSumThreads)
    add_loss_sum_kernel(const float* __restrict__ losses, int64_t count, StepScalars* scalars) {
  __shared__ double shared[cuda::kWarpSize];
  double sum = 0;
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < count; i += kSumThreads) sum += double(losses[i]);
  sum = cuda::block_reduce(sum, cuda::Sum{}, 0.0, shared);
  if (threadIdx.x == 0) scalars->loss_sum += sum;
}

}  // namespace

template <Device D, class T>
void cross_entropy(ExecContext& ctx, const CrossEntropyArgs& args) {
  using N = cuda::Native<T>;
  const size_t limit = shared_limit(ctx.device.compute_capability);
  const Problem<N> problem{.logits = cuda::native<T>(args.logits),
                           .stride = args.logits.row_stride,
                           .size = static_cast<int>(args.logits.cols()),
                           .room = static_cast<int>(limit / sizeof(Pack<N>)),
                           .targets = args.targets.ptr<int32_t>(),
                           .losses = args.losses.ptr<float>(),
                           .write_grad = args.write_grad,
                           .scalars = ctx.scalars};
  const auto rows = static_cast<unsigned>(args.logits.rows());
  if (rows == 0) return;
  // Short rows take few threads: a block of one warp costs the least to start and to synchronise.
  const int packs = problem.size / Pack<N>::kSize;
  const int wanted = (packs / 4 + cuda::kWarpSize - 1) / cuda::kWarpSize * cuda::kWarpSize;
  const auto config = [&](int most, size_t shared) {
    const auto threads = static_cast<unsigned>(std::clamp(wanted, cuda::kWarpSize, most));
    return cuda::LaunchConfig(rows, threads, cuda::stream_of(ctx), shared);
  };
  const size_t bytes = static_cast<size_t>(packs) * 16;
  if (args.write_grad && 2 * bytes <= limit) {
    cuda::launch(config(512, bytes), cross_entropy_kernel<N, true, 512>, problem);
  } else if (args.write_grad) {
    const size_t room = static_cast<size_t>(problem.room) * sizeof(Pack<N>);
    cuda::launch(config(1024, std::min(bytes, room)), cross_entropy_kernel<N, true, 1024>, problem);
  } else {
    cuda::launch(config(512, 0), cross_entropy_kernel<N, false, 1024>, problem);
  }
}

template <Device D, class T>
void add_loss_sum(ExecContext& ctx, const TensorView& losses) {
  cuda::launch({1, kSumThreads, cuda::stream_of(ctx)}, add_loss_sum_kernel, losses.ptr<float>(), losses.numel(),
               ctx.scalars);
}

template void cross_entropy<Device::cuda, float>(ExecContext&, const CrossEntropyArgs&);
template void cross_entropy<Device::cuda, Bf16>(ExecContext&, const CrossEntropyArgs&);
template void cross_entropy<Device::cuda, Fp16>(ExecContext&, const CrossEntropyArgs&);
template void add_loss_sum<Device::cuda, float>(ExecContext&, const TensorView&);

}  // namespace gradmill
