// SPDX-License-Identifier: Apache-2.0
// Cross-entropy of short rows (characters, bytes or labels): a few lanes of a warp keep each row in registers.
#pragma once

#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/reduce.cuh"
#include "ops/cross_entropy/cross_entropy_rows.cuh"

namespace gradmill {
namespace {

constexpr int kShortThreads = 128, kShortPacks = 4;  // per lane

// kLanes neighbouring lanes process a row, which begins at a multiple of 16 bytes. Its last pack may extend past its
// end; elements there are written back unchanged. All loads are in flight before the first is waited for, except the
// target's logit, which then is in the cache.
template <bool kWeighted, class N, int kLanes>
__device__ __forceinline__ void short_rows(const Problem<N>& problem, int64_t rows) {
  constexpr int kPack = Packed<N>::kSize;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t thread = int64_t{blockIdx.x} * kShortThreads + threadIdx.x, row = thread / kLanes;
  // Without this, a warp without a row would read one that another warp is writing.
  if ((thread - threadIdx.x % cuda::kWarpSize) / kLanes >= rows) return;
  const int64_t read_row = min(row, rows - 1);  // lanes without a row take part in the sums of their warp
  N* logits = problem.logits + read_row * problem.stride;
  const int size = problem.size, last_pack = (size - 1) / kPack;
  Packed<N> packs[kShortPacks];
#pragma unroll
  for (int p = 0; p < kShortPacks; ++p) {
    packs[p] = Packed<N>::load(logits + min(lane + p * kLanes, last_pack) * kPack);
  }
  const float weight = kWeighted ? problem.weights[read_row] : 1.0f;
  const float scale = problem.scalars->inv_targets * problem.scalars->loss_scale * weight;
  const int target = problem.targets[read_row];
  const bool ignored = target == kIgnoredTarget || weight == 0;
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
  __syncwarp();  // all lanes have read their target's logit, which one of them will overwrite
  if (row >= rows) return;
  if (lane == 0) problem.losses[row] = ignored ? 0.0f : (logf(sum) + (max - chosen)) * weight;
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

template <class N, int kLanes>
__global__ void __launch_bounds__(kShortThreads) short_rows_kernel(const Problem<N> problem, int64_t rows) {
  short_rows<false, N, kLanes>(problem, rows);
}
template <class N, int kLanes>
__global__ void __launch_bounds__(kShortThreads) weighted_short_rows_kernel(const Problem<N> problem, int64_t rows) {
  short_rows<true, N, kLanes>(problem, rows);
}

// Whether the rows are aligned and short enough for it.
template <class T>
bool run_short_rows(ExecContext& ctx, const CrossEntropyArgs& args) {
  using N = cuda::Native<T>;
  constexpr int kPack = Packed<N>::kSize, kMost = kShortPacks * kPack;  // elements per lane
  const TensorView& logits = args.logits;
  const bool aligned = logits.row_stride % kPack == 0 && reinterpret_cast<uintptr_t>(logits.data) % 16 == 0;
  if (!aligned || logits.cols() > cuda::kWarpSize * kMost) return false;
  const Problem<N> problem = problem_of<T>(ctx, args);
  const auto run = [&]<int kLanes>() {
    const int64_t blocks = (logits.rows() * kLanes + kShortThreads - 1) / kShortThreads;
    cuda::launch({static_cast<unsigned>(blocks), kShortThreads, cuda::stream_of(ctx)},
                 args.weights.defined() ? weighted_short_rows_kernel<N, kLanes> : short_rows_kernel<N, kLanes>, problem,
                 logits.rows());
    return true;
  };
  if (logits.cols() <= 4 * kMost) return run.template operator()<4>();
  if (logits.cols() <= 8 * kMost) return run.template operator()<8>();
  if (logits.cols() <= 16 * kMost) return run.template operator()<16>();
  return run.template operator()<32>();
}

}  // namespace
}  // namespace gradmill
