// SPDX-License-Identifier: Apache-2.0
// Cross-entropy on a GPU: a row is read once, kept in shared memory, and its gradient written in its place: 4 bytes an
// element in bf16. A row of 32768 then takes 6800 cycles of one multiprocessor's share of an H200's memory and 4100 of
// its exponential unit (two exponentials an element), so three rows at a time, each in another phase, keep the memory
// busy. Of a longer row, of which fewer fit, the blocks of a cluster keep a part each: 151936 elements are 74 KiB in
// each of four blocks, and again three blocks are on a multiprocessor. Rows of characters or bytes would leave most of
// a block idle: a few lanes of a warp have each of them, in registers.
#include "ops/cross_entropy.h"

#include <cuda_pipeline.h>

#include <algorithm>
#include <type_traits>

#include "cuda/cluster.cuh"
#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/packed.cuh"
#include "cuda/reduce.cuh"
#include "cuda/shared_limit.h"

namespace gradmill {
namespace {

using cuda::Packed;

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

  __device__ void add(float2 other) {
    const float larger = fmaxf(max, other.x);
    sum = sum * exponential<N>(max - larger) + other.y * exponential<N>(other.x - larger);
    max = larger;
  }

  // Of all lanes of the warp, to all of them.
  __device__ void add_lanes() {
    const float largest = cuda::warp_reduce(max, cuda::Max{});
    sum = cuda::warp_reduce(sum * exponential<N>(max - largest), cuda::Sum{});
    max = largest;
  }

  // Of all threads of the row's kBlocks blocks, to all of them: each warp tells its sum to every block. `shared` has
  // room for one a warp. The blocks of a cluster have arrived once before: cluster_arrive_started.
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

// A block's part of a row: 16-byte packs, of which thread i takes every i-th. The elements before and after the row's
// packs (rows of an odd vocabulary begin anywhere) are the first block's, one a thread at most.
template <class N>
struct Part {
  static constexpr int kPack = Packed<N>::kSize;
  N* body;
  N* edge;  // this thread's, or null
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

  // visit(pack index, pack) for this thread's packs, which `load` gets: kBatch of them before the first is used.
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

  // This thread's of the first `count` packs into shared memory, without a detour through registers: all of them are on
  // their way at once.
  __device__ void keep(int4* kept, int count) const {
    for (int p = threadIdx.x; p < count; p += blockDim.x) {
      __pipeline_memcpy_async(kept + p, body + p * kPack, sizeof(int4));
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
  int share;  // packs of a row in each of its blocks
  int room;   // packs that shared memory holds
  const int32_t* targets;
  float* losses;
  bool write_grad;
  const StepScalars* scalars;
};

template <class N>
__device__ void clear(const Part<N>& part) {
  const auto zero = Packed<N>::of([](int) { return 0.0f; });
  for (int p = threadIdx.x; p < part.packs; p += blockDim.x) zero.store(part.body + p * Packed<N>::kSize);
  if (part.edge != nullptr) *part.edge = cuda::from_float<N>(0);
}

// How many of a block's packs are copied to shared memory; each thread looks at its own only. What is not there is read
// again by the gradient's pass, mostly from the L2 cache.
enum class Keep : uint8_t { none, some, all };

// kBlocks neighbouring blocks have a row; if more than one, they are a cluster.
// Registers for three blocks of 512 threads on a multiprocessor, or one of 1024.
template <class N, Keep kKeep, int kMaxThreads, int kBlocks>
__global__ void __maxnreg__(kMaxThreads == 512 ? 40 : 64) cross_entropy_kernel(const Problem<N> problem) {
  constexpr int kPack = Packed<N>::kSize;
  extern __shared__ int4 kept[];
  __shared__ float2 sums[kBlocks * kMaxThreads / cuda::kWarpSize];
  const int64_t row = blockIdx.x / kBlocks;
  const int rank = static_cast<int>(blockIdx.x) % kBlocks;
  N* logits = problem.logits + row * problem.stride;
  const int target = problem.targets[row];
  const Part<N> part(logits, problem.size, rank, problem.share);
  const bool tells_loss = rank == 0 && threadIdx.x == 0;
  if (target == kIgnoredTarget) {
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
  if (tells_loss) problem.losses[row] = logf(total.sum) + (total.max - chosen);
  if (!problem.write_grad) return;

  const float scale = problem.scalars->inv_targets * problem.scalars->loss_scale, factor = scale / total.sum;
  const auto gradient = [&](float x) { return exponential<N>(x - total.max) * factor; };
  part.template for_each<kBatch>(load, [&](int p, const Packed<N>& pack) {
    Packed<N>::of([&](int i) { return gradient(pack[i]); }).store(part.body + p * kPack);
  });
  if (part.edge != nullptr) *part.edge = cuda::from_float<N>(gradient(edge[0]));
  if (part.owns(logits + target)) {
    logits[target] = cuda::from_float<N>((exponential<N>(chosen - total.max) / total.sum - 1) * scale);
  }
}

constexpr int kShortThreads = 128, kShortPacks = 4;  // of a lane

// kLanes neighbouring lanes have a row, which begins at a multiple of 16 bytes. Its last pack may reach over its end:
// what lies there is written as it was read. All loads are on their way before the first is waited for; but for the
// target's logit, which then is in the cache.
template <class N, int kLanes>
__global__ void __launch_bounds__(kShortThreads) short_rows_kernel(const Problem<N> problem, int64_t rows) {
  constexpr int kPack = Packed<N>::kSize;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t row = (int64_t{blockIdx.x} * kShortThreads + threadIdx.x) / kLanes;
  const int64_t read_row = min(row, rows - 1);  // lanes without a row take part in the sums of their warp
  N* logits = problem.logits + read_row * problem.stride;
  const int size = problem.size, last_pack = (size - 1) / kPack;
  Packed<N> packs[kShortPacks];
#pragma unroll
  for (int p = 0; p < kShortPacks; ++p) {
    packs[p] = Packed<N>::load(logits + min(lane + p * kLanes, last_pack) * kPack);
  }
  const float scale = problem.scalars->inv_targets * problem.scalars->loss_scale;
  const int target = problem.targets[read_row];
  const bool ignored = target == kIgnoredTarget;
  const float chosen = ignored ? 0.0f : cuda::to_float(logits[target]);

  const auto first_of = [&](int p) { return (lane + p * kLanes) * kPack; };
  float x[kShortPacks][kPack], max = kLowest, sum = 0;
#pragma unroll
  for (int p = 0; p < kShortPacks; ++p) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      x[p][i] = first_of(p) + i < size ? packs[p][i] : -INFINITY;
      max = fmaxf(max, x[p][i]);
    }
  }
  max = cuda::warp_reduce<kLanes>(max, cuda::Max{});
#pragma unroll
  for (int p = 0; p < kShortPacks; ++p) {
    if (first_of(p) >= size) break;
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      x[p][i] = exponential<N>(x[p][i] - max);
      sum += x[p][i];
    }
  }
  sum = cuda::warp_reduce<kLanes>(sum, cuda::Sum{});
  __syncwarp();  // all lanes have read their target's logit, which one of them will write
  if (row >= rows) return;
  if (lane == 0) problem.losses[row] = ignored ? 0.0f : logf(sum) + (max - chosen);
  if (!problem.write_grad) return;

  const float factor = scale / sum;
#pragma unroll
  for (int p = 0; p < kShortPacks; ++p) {
    if (first_of(p) >= size) break;
    const auto gradient = [&](int i) {
      const float inside = ignored ? 0.0f : x[p][i] * factor;
      return first_of(p) + i < size ? inside : packs[p][i];
    };
    Packed<N>::of(gradient).store(logits + first_of(p));
  }
  if (!ignored && target / kPack % kLanes == lane) {
    logits[target] = cuda::from_float<N>((exponential<N>(chosen - max) / sum - 1) * scale);
  }
}

// Packs of each block when `blocks` share a row: whole lines of 128 bytes.
int share_of(int packs, int blocks) { return blocks == 1 ? packs : (packs + 8 * blocks - 1) / (8 * blocks) * 8; }

// The fewest blocks to a row of which three fit a multiprocessor, or else the most that a cluster has.
int blocks_for(int packs, int compute_capability) {
  if (compute_capability < 90) return 1;
  // Two whole rows on a multiprocessor are faster than three halves each: 86% of the copy rate for 79%.
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

// Whether the rows are aligned and short enough for it.
template <class T>
bool run_short_rows(ExecContext& ctx, const CrossEntropyArgs& args) {
  using N = cuda::Native<T>;
  constexpr int kPack = Packed<N>::kSize, kMost = kShortPacks * kPack;  // elements of a lane
  const TensorView& logits = args.logits;
  const bool aligned = logits.row_stride % kPack == 0 && reinterpret_cast<uintptr_t>(logits.data) % 16 == 0;
  if (!aligned || logits.cols() > cuda::kWarpSize * kMost) return false;
  const Problem<N> problem{.logits = cuda::native<T>(logits),
                           .stride = logits.row_stride,
                           .size = static_cast<int>(logits.cols()),
                           .targets = args.targets.ptr<int32_t>(),
                           .losses = args.losses.ptr<float>(),
                           .write_grad = args.write_grad,
                           .scalars = ctx.scalars};
  const auto run = [&]<int kLanes>() {
    const int64_t blocks = (logits.rows() * kLanes + kShortThreads - 1) / kShortThreads;
    cuda::launch({static_cast<unsigned>(blocks), kShortThreads, cuda::stream_of(ctx)}, short_rows_kernel<N, kLanes>,
                 problem, logits.rows());
    return true;
  };
  if (logits.cols() <= 4 * kMost) return run.template operator()<4>();
  if (logits.cols() <= 8 * kMost) return run.template operator()<8>();
  if (logits.cols() <= 16 * kMost) return run.template operator()<16>();
  return run.template operator()<32>();
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
  const int compute_capability = ctx.device.compute_capability,
            packs = static_cast<int>(args.logits.cols()) / Packed<N>::kSize;
  const size_t limit = cuda::shared_limit(compute_capability);
  const auto rows = static_cast<unsigned>(args.logits.rows());
  if (rows == 0) return;
  if (run_short_rows<T>(ctx, args)) return;
  const auto run = [&](auto kernel, unsigned blocks, int most_threads, size_t room) {
    const Problem<N> problem{.logits = cuda::native<T>(args.logits),
                             .stride = args.logits.row_stride,
                             .size = static_cast<int>(args.logits.cols()),
                             .share = share_of(packs, static_cast<int>(blocks)),
                             .room = static_cast<int>(room / sizeof(int4)),
                             .targets = args.targets.ptr<int32_t>(),
                             .losses = args.losses.ptr<float>(),
                             .write_grad = args.write_grad,
                             .scalars = ctx.scalars};
    // Short rows take few threads: a block of one warp costs the least to start and to synchronise.
    const int wanted = (problem.share / 4 + cuda::kWarpSize - 1) / cuda::kWarpSize * cuda::kWarpSize;
    const auto threads = static_cast<unsigned>(std::clamp(wanted, cuda::kWarpSize, most_threads));
    const size_t shared = std::min(static_cast<size_t>(problem.share) * sizeof(int4), room);
    cuda::LaunchConfig config(rows * blocks, threads, cuda::stream_of(ctx), shared);
    config.cluster = blocks;
    cuda::launch(config, kernel, problem);
  };
  const int blocks = blocks_for(packs, compute_capability);
  const size_t bytes = static_cast<size_t>(packs) * sizeof(int4);
  if (!args.write_grad) {
    run(cross_entropy_kernel<N, Keep::none, 1024, 1>, 1, 512, 0);
  } else if (blocks == 1 && 2 * bytes <= limit) {
    run(cross_entropy_kernel<N, Keep::all, 512, 1>, 1, 512, limit);
  } else if (blocks == 2) {
    run(cross_entropy_kernel<N, Keep::all, 512, 2>, 2, 512, limit);
  } else if (blocks == 4) {
    run(cross_entropy_kernel<N, Keep::all, 512, 4>, 4, 512, limit);
  } else if (blocks == 8 && share_of(packs, 8) * sizeof(int4) <= limit) {
    run(cross_entropy_kernel<N, Keep::all, 512, 8>, 8, 512, limit);
  } else {
    run(cross_entropy_kernel<N, Keep::some, 1024, 1>, 1, 1024, limit);
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
