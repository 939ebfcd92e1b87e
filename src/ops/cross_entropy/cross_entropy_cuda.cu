// SPDX-License-Identifier: Apache-2.0
// Cross-entropy on a GPU. A row is read once, kept in shared memory, and replaced by its gradient: 4 bytes per element
// in bf16. A row of 32768 takes 6800 cycles of one multiprocessor's share of an H200's memory and 4100 of its
// exponential unit (two exponentials per element). So three rows at a time, each in another phase, keep the memory
// busy. Fewer long rows fit, so the blocks of a cluster share one: 151936 elements take 74 KiB in each of four blocks,
// and again three blocks fit on a multiprocessor. Rows of characters or bytes would leave most of a block idle; they
// have a separate kernel (cross_entropy_short.cuh).
#include "ops/cross_entropy/cross_entropy.h"

#include <cuda_pipeline.h>

#include <algorithm>

#include "cuda/cluster.cuh"
#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/reduce.cuh"
#include "cuda/shared_limit.h"
#include "ops/cross_entropy/cross_entropy_rows.cuh"
#include "ops/cross_entropy/cross_entropy_short.cuh"

namespace gradmill {
namespace {

// A block's part of a row: 16-byte packs, distributed over the threads in turn. The elements before and after the row's
// packs (rows of an odd vocabulary can begin anywhere) belong to the first block, at most one per thread.
template <class N>
struct Part {
  static constexpr int kPack = Packed<N>::kSize;
  N* body;
  N* edge;  // this thread's element outside the packs, or null
  int packs;

  // Part `rank` of a row, at most `share` packs of it.
  __device__ Part(N* row, int size, int rank, int share) {
    const int past = static_cast<int>(reinterpret_cast<uintptr_t>(row) % 16 / sizeof(N));
    const int head = min(size, (kPack - past) % kPack), thread = static_cast<int>(threadIdx.x);
    const int all = (size - head) / kPack, begin = min(rank * share, all);
    body = row + head + begin * kPack;
    packs = min(share, all - begin);
    const int index = thread < head ? thread : thread + all * kPack;
    edge = rank == 0 && index < size ? row + index : nullptr;
  }

  // Whether this thread writes the element `at`.
  __device__ bool owns(const N* at) const {
    const int64_t pack = (at - body) / kPack;
    return at == edge || (at >= body && pack < packs && static_cast<unsigned>(pack) % blockDim.x == threadIdx.x);
  }

  // Calls visit(pack index, pack) for this thread's packs, obtained from `load`. Loads kBatch packs before the first is
  // used.
  template <int kBatch, class Load, class Visit>
  __device__ void for_each(Load&& load, Visit&& visit) const {
    const int threads = static_cast<int>(blockDim.x);
    for (int first = static_cast<int>(threadIdx.x); first < packs; first += kBatch * threads) {
      Packed<N> batch[kBatch];
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

  // Copies this thread's packs among the first `count` to shared memory, not through registers. All copies are in
  // flight at once.
  __device__ void keep(int4* kept, int count) const {
    for (int p = threadIdx.x; p < count; p += blockDim.x) {
      __pipeline_memcpy_async(kept + p, body + p * kPack, sizeof(int4));
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
  }
};

template <class N>
__device__ void clear(const Part<N>& part) {
  const auto zero = Packed<N>::of([](int) { return 0.0f; });
  for (int p = threadIdx.x; p < part.packs; p += blockDim.x) zero.store(part.body + p * Packed<N>::kSize);
  if (part.edge != nullptr) *part.edge = cuda::from_float<N>(0);
}

// How many of a block's packs are copied to shared memory; each thread reads only its own. The gradient pass reads the
// other packs again, mostly from the L2 cache.
enum class Keep : uint8_t { none, some, all };

// kBlocks neighbouring blocks have a row; if more than one, they are a cluster.
template <bool kWeighted, class N, Keep kKeep, int kMaxThreads, int kBlocks>
__device__ __forceinline__ void cross_entropy_row(const Problem<N>& problem) {
  constexpr int kPack = Packed<N>::kSize;
  extern __shared__ int4 kept[];
  __shared__ float2 sums[kBlocks * kMaxThreads / cuda::kWarpSize];
  const int64_t row = blockIdx.x / kBlocks;
  const int rank = static_cast<int>(blockIdx.x) % kBlocks;
  N* logits = problem.logits + row * problem.stride;
  const int target = problem.targets[row];
  const Part<N> part(logits, problem.size, rank, problem.share);
  const bool tells_loss = rank == 0 && threadIdx.x == 0;
  const float weight = kWeighted ? problem.weights[row] : 1.0f;
  if (target == kIgnoredTarget || weight == 0) {
    if (tells_loss) problem.losses[row] = 0;
    if (problem.write_grad) clear(part);
    return;
  }
  if constexpr (kBlocks > 1) cuda::cluster_arrive_started();
  const float chosen = cuda::to_float(logits[target]);

  const int count = kKeep == Keep::none ? 0 : kKeep == Keep::all ? part.packs : min(part.packs, problem.room);
  if constexpr (kKeep != Keep::none) part.keep(kept, count);
  constexpr int kBatch = kKeep == Keep::none ? 3 : 2;
  const auto load = [&](int p) {
    const bool is_kept = kKeep == Keep::all || (kKeep == Keep::some && p < count);
    return Packed<N>::load(is_kept ? reinterpret_cast<const N*>(kept + p) : part.body + p * kPack);
  };
  const float edge[1] = {part.edge != nullptr ? cuda::to_float(*part.edge) : -INFINITY};
  ExpSum<N> total;
  total.add(edge);
  part.template for_each<kBatch>(load, [&](int, const Packed<N>& pack) {
    float x[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) x[i] = pack[i];
    total.add(x);
  });
  total.template add_threads<kBlocks>(sums);
  if (tells_loss) problem.losses[row] = (logf(total.sum) + (total.max - chosen)) * weight;
  if (!problem.write_grad) return;

  const float scale = problem.scalars->inv_targets * problem.scalars->loss_scale * weight, factor = scale / total.sum;
  const auto gradient = [&](float x) { return exponential<N>(x - total.max) * factor; };
  part.template for_each<kBatch>(load, [&](int p, const Packed<N>& pack) {
    Packed<N>::of([&](int i) { return gradient(pack[i]); }).store(part.body + p * kPack);
  });
  if (part.edge != nullptr) *part.edge = cuda::from_float<N>(gradient(edge[0]));
  if (part.owns(logits + target)) {
    logits[target] = cuda::from_float<N>((exponential<N>(chosen - total.max) / total.sum - 1) * scale);
  }
}

// Registers for three blocks of 512 threads on a multiprocessor, or one of 1024.
template <class N, Keep kKeep, int kMaxThreads, int kBlocks>
__global__ void __maxnreg__(kMaxThreads == 512 ? 40 : 64) cross_entropy_kernel(const Problem<N> problem) {
  cross_entropy_row<false, N, kKeep, kMaxThreads, kBlocks>(problem);
}
template <class N, Keep kKeep, int kMaxThreads, int kBlocks>
__global__ void __maxnreg__(kMaxThreads == 512 ? 40 : 64) weighted_cross_entropy_kernel(const Problem<N> problem) {
  cross_entropy_row<true, N, kKeep, kMaxThreads, kBlocks>(problem);
}

// Packs of each block when `blocks` share a row: whole lines of 128 bytes.
int share_of(int packs, int blocks) { return blocks == 1 ? packs : (packs + 8 * blocks - 1) / (8 * blocks) * 8; }

// The smallest number of blocks per row such that three fit on a multiprocessor, or otherwise the largest cluster.
int blocks_for(int packs, int compute_capability) {
  if (compute_capability < 90) return 1;
  // Two whole rows per multiprocessor are faster than three halves: 86% of the copy rate instead of 79%.
  if (2 * static_cast<size_t>(packs) * sizeof(int4) <= cuda::shared_limit(compute_capability)) return 1;
  constexpr size_t kOwn = 1024, kMostBlocks = 8, kSums = 512 / cuda::kWarpSize * sizeof(float2);
  size_t blocks = 1;
  const auto three_fit = [&] {
    const size_t bytes = static_cast<size_t>(share_of(packs, static_cast<int>(blocks))) * sizeof(int4);
    return 3 * (bytes + blocks * kSums + kOwn) <= cuda::shared_limit(compute_capability) + 2 * kOwn;
  };
  while (blocks < kMostBlocks && !three_fit()) blocks *= 2;
  return static_cast<int>(blocks);
}

constexpr int kSumThreads = 1024;

// A single block: each thread sums its own rows in order, then the threads are added in order.
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
  const int compute_capability = ctx.device.compute_capability,
            packs = static_cast<int>(args.logits.cols()) / Packed<N>::kSize;
  const size_t limit = cuda::shared_limit(compute_capability);
  const auto rows = static_cast<unsigned>(args.logits.rows());
  if (rows == 0) return;
  if (run_short_rows<T>(ctx, args)) return;
  const auto run = [&]<Keep kKeep, int kMaxThreads, int kBlocks>(int most_threads, size_t room) {
    Problem<N> problem = problem_of<T>(ctx, args);
    problem.share = share_of(packs, kBlocks);
    problem.room = static_cast<int>(room / sizeof(int4));
    // Short rows take few threads: a block of one warp costs the least to start and to synchronise.
    const int wanted = (problem.share / 4 + cuda::kWarpSize - 1) / cuda::kWarpSize * cuda::kWarpSize;
    const auto threads = static_cast<unsigned>(std::clamp(wanted, cuda::kWarpSize, most_threads));
    const size_t shared = std::min(static_cast<size_t>(problem.share) * sizeof(int4), room);
    cuda::LaunchConfig config(rows * kBlocks, threads, cuda::stream_of(ctx), shared);
    config.cluster = kBlocks;
    cuda::launch(config,
                 args.weights.defined() ? weighted_cross_entropy_kernel<N, kKeep, kMaxThreads, kBlocks>
                                        : cross_entropy_kernel<N, kKeep, kMaxThreads, kBlocks>,
                 problem);
  };
  const int blocks = blocks_for(packs, compute_capability);
  const size_t bytes = static_cast<size_t>(packs) * sizeof(int4);
  if (!args.write_grad) {
    run.template operator()<Keep::none, 1024, 1>(512, 0);
  } else if (blocks == 1 && 2 * bytes <= limit) {
    run.template operator()<Keep::all, 512, 1>(512, limit);
  } else if (blocks == 2) {
    run.template operator()<Keep::all, 512, 2>(512, limit);
  } else if (blocks == 4) {
    run.template operator()<Keep::all, 512, 4>(512, limit);
  } else if (blocks == 8 && share_of(packs, 8) * sizeof(int4) <= limit) {
    run.template operator()<Keep::all, 512, 8>(512, limit);
  } else {
    run.template operator()<Keep::some, 1024, 1>(1024, limit);
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
