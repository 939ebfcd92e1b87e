// SPDX-License-Identifier: Apache-2.0
// LayerNorm's forward for the one width that fills the packs of its threads, without bias: what all rows have in common
// is known to the compiler, so that the code has no branches and little but arithmetic. With dropout that makes 21
// instructions a bf16 element, of which Philox takes 3 and dropping 5.
#pragma once

#include "ops/norm/norm_rows.cuh"

namespace gradmill {
namespace {

// 384 columns of 16 bits. With eight threads a row the sums over it and its root, which each of them computes, are a
// seventh of the work, and 16,384 rows are on an H200's multiprocessors at once.
struct WholeRows {
  static constexpr int kLanes = 8, kPacks = 6, kCols = kLanes * kPacks * 8, kThreads = 128;
  static constexpr int kRows = kThreads / kLanes, kBlocks = 8;  // rows of a block, blocks of a multiprocessor
};

template <class N>
struct WholeRowsArgs {
  const N *x, *delta, *weight;
  N *sum, *y;
  int64_t x_stride, delta_stride, sum_stride, y_stride;
  float *mean, *rstd;
  int rows;
  float eps;
  const StepScalars* scalars;  // looked at with dropout only
  uint32_t dropout_site;
};

// The sum over a row of what add(p, i, part) adds to a part, in the order of 16 threads for a row: a thread does the
// work of two of them, whose packs are neighbours.
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
  constexpr int kAhead = 4;  // packs of x that are asked for at once; registers are too few for all
  const int index = static_cast<int>(blockIdx.x * WholeRows::kRows + threadIdx.x / kLanes);
  const bool active = index < args.rows;
  // A warp without a row would read one that another warp is writing.
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
