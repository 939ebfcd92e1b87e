// SPDX-License-Identifier: Apache-2.0
// LayerNorm's forward without bias for the one width that fills the packs of its threads. The compiler knows everything
// that rows have in common, so the code has no branches and is nearly all arithmetic. With dropout it takes 21
// instructions per bf16 element, of which 3 are for Philox and 5 for dropping.
#pragma once

#include "ops/norm/norm_rows.cuh"

namespace gradmill {
namespace {

// 384 columns of 16 bits. With eight threads per row, the sums over the row and its root, which each thread computes,
// are a seventh of the work, and 16,384 rows fit on an H200's multiprocessors at once.
struct WholeRows {
  static constexpr int kLanes = 8, kPacks = 6, kCols = kLanes * kPacks * 8, kThreads = 128;
  static constexpr int kRows = kThreads / kLanes, kBlocks = 8;  // rows per block, blocks per multiprocessor
};

template <class N>
struct WholeRowsArgs {
  const N *x, *delta, *weight;
  N *sum, *y;
  int64_t x_stride, delta_stride, sum_stride, y_stride;
  float *mean, *rstd;
  int rows;
  float eps;
  const StepScalars* scalars;  // used with dropout only
  uint32_t dropout_site;
};

// Sums over a row what add(p, i, part) adds to a part, in the order of 16 threads per row: each thread does the work of
// two of those, whose packs are neighbours.
template <int kLanes, int kPacks, int kSize, class Add>
__device__ float whole_row_sum(Add&& add) {
  static_assert(kLanes == 8);
  float parts[2] = {};
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) parts[p % 2] = add(p, i, parts[p % 2]);
  }
  return row_sum<kLanes>(parts[0] + parts[1], nullptr);
}

template <class N, bool kDropout>
__global__ void __launch_bounds__(WholeRows::kThreads, WholeRows::kBlocks)
    norm_whole_rows_kernel(const WholeRowsArgs<N> args) {
  constexpr int kLanes = WholeRows::kLanes, kPacks = WholeRows::kPacks, kSize = Packed<N>::kSize;
  constexpr int kSlab = kLanes * kSize, kCols = WholeRows::kCols;
  constexpr int kAhead = 4;  // packs of x that are loaded at once; there are too few registers for all
  const int index = static_cast<int>(blockIdx.x * WholeRows::kRows + threadIdx.x / kLanes);
  const bool active = index < args.rows;
  // Without this, a warp without a row would read one that another warp is writing.
  constexpr int kWarpRows = cuda::kWarpSize / kLanes;
  if (index / kWarpRows * kWarpRows >= args.rows) return;
  const int row = min(index, args.rows - 1);  // threads without a row read the last one
  const int column = column_of<N, kLanes>(0);
  const N *x = args.x + row * args.x_stride + column, *from = args.delta + row * args.delta_stride + column;
  N* sum = args.sum + row * args.sum_stride + column;
  Packed<N> words[kPacks], delta[kPacks];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) delta[p] = Packed<N>::load_streaming(from + p * kSlab);
#pragma unroll
  for (int p = 0; p < kAhead; ++p) words[p] = Packed<N>::load_streaming(x + p * kSlab);
  __syncthreads();  // else the compiler puts off the loads until it has computed what does not need them
  cuda::DropoutRule rule;
  if constexpr (kDropout) rule = cuda::DropoutRule(*args.scalars, args.dropout_site);
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if constexpr (kDropout) delta[p] = dropped(rule, delta[p], row, column + p * kSlab);
    words[p] = words[p] + delta[p];
    words[p].store_if(active, sum + p * kSlab);
    if (p + kAhead < kPacks) words[p + kAhead] = Packed<N>::load_streaming(x + (p + kAhead) * kSlab);
  }
  float values[kPacks][kSize];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) values[p][i] = words[p][i];
  }
  constexpr float kReciprocal = 1.0f / kCols;
  const float total =
      whole_row_sum<kLanes, kPacks, kSize>([&](int p, int i, float part) { return part + values[p][i]; });
  const float mean = cuda::rounded_quotient(total, kCols, kReciprocal);
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) values[p][i] = __fsub_rn(values[p][i], mean);
  }
  const float squares = whole_row_sum<kLanes, kPacks, kSize>(
      [&](int p, int i, float part) { return fmaf(values[p][i], values[p][i], part); });
  const float variance = cuda::rounded_quotient(squares, kCols, kReciprocal);
  const float rstd = cuda::rounded_reciprocal(cuda::rounded_root(variance + args.eps));
  if (active && threadIdx.x % kLanes == 0) args.mean[row] = mean, args.rstd[row] = rstd;
  N* y = args.y + row * args.y_stride + column;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const auto weight = Packed<N>::load(args.weight + column + p * kSlab);
    Packed<N>::of([&](int i) {
      return __fmul_rn(__fmul_rn(values[p][i], rstd), weight[i]);
    }).store_if(active, y + p * kSlab);
  }
}

}  // namespace
}  // namespace gradmill
