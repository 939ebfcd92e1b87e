// SPDX-License-Identifier: Apache-2.0
// LayerNorm's backward without biases for the width that fills three packs of 16 threads: 384 columns of 16 bits. It
// gives the bits of norm_backward_kernel, without that kernel's tests for other widths and forms. With dropout, a row
// takes 26 instructions per bf16 element, which issue in less than half of the time that its ten bytes take.
#pragma once

#include "ops/norm/norm_backward_rows.cuh"

namespace gradmill {
namespace {

struct WholeBackward {
  static constexpr int kLanes = 16, kPacks = 3, kSize = 8, kSlab = kLanes * kSize, kCols = kSlab * kPacks;
  static constexpr int kGroups = kBackwardThreads / kLanes;
  static_assert(kCols <= kBackwardThreads);
  // The position of a column in the gains: the four floats of neighbouring lanes are adjacent, to avoid bank conflicts.
  __device__ static constexpr int gain_slot(int column) {
    return column / kSlab * kSlab + column / 4 % 2 * (kSlab / 2) + column % kSlab / kSize * 4 + column % 4;
  }
  static constexpr size_t kBytes = 2 * Stages<kPacks>::kBytes;
};

template <class N, bool kDropped>
__global__ void __launch_bounds__(kBackwardThreads, 1) norm_backward_whole_kernel(const BackwardRows<N> args) {
  using Whole = WholeBackward;
  constexpr int kPacks = Whole::kPacks, kSize = Whole::kSize, kSlab = Whole::kSlab;
  constexpr float kScale = 1.0f / Whole::kCols;
  enum Tensor { kValues, kDy, kResidual };
  extern __shared__ int4 memory[];
  __shared__ __align__(16) float gains[Whole::kCols];  // converted once; not kept in registers, which are scarce
  const Stages<kPacks> stages{memory};
  const int begin = static_cast<int>(blockIdx.x) * args.chunk_rows, end = min(begin + args.chunk_rows, args.rows);
  const int column = column_of<N, Whole::kLanes>(0);
  int row = begin + static_cast<int>(threadIdx.x) / Whole::kLanes;
  int64_t at = row * args.sum_stride + column;  // the same in all tensors
  const int64_t step = Whole::kGroups * args.sum_stride;

  const auto fetch = [&](int from, int64_t offset, int stage) {
    const bool there = from < end;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      copy_ahead<16>(stages.at(stage, kValues, p), args.sum + offset + p * kSlab, there);
      copy_ahead<16>(stages.at(stage, kDy, p), args.dy + offset + p * kSlab, there);
      copy_ahead<16>(stages.at(stage, kResidual, p), args.residual + offset + p * kSlab, there);
    }
    __pipeline_commit();
    return there ? RowStats{args.mean[from], args.rstd[from]} : RowStats{0, 0};
  };
  RowStats next = fetch(row, at, 0);
  if (const int c = static_cast<int>(threadIdx.x); c < Whole::kCols) {
    gains[Whole::gain_slot(c)] = gain_of(cuda::to_float(args.weight[c]), args.weight_offset);
  }
  cuda::DropoutRule rule;
  if constexpr (kDropped) rule = cuda::DropoutRule(*args.scalars, args.dropout_site);
  __syncthreads();

  const float* gain = gains + Whole::gain_slot(column);
  float dweight[kPacks][kSize] = {};
  int stage = 0;
  for (int first = begin; first < end; first += Whole::kGroups, row += Whole::kGroups, at += step, stage ^= 1) {
    const RowStats stats = next;
    next = fetch(row + Whole::kGroups, at + step, stage ^ 1);
    __pipeline_wait_prior(1);
    float g[kPacks][kSize], centred[kPacks][kSize];
    float sum_g = 0, sum_gn = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const auto values = stages.template load<N>(stage, kValues, p), dy = stages.template load<N>(stage, kDy, p);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        centred[p][i] = values[i] - stats.mean;
        const float normal = centred[p][i] * stats.rstd;
        g[p][i] = dy[i] * gain[p * kSlab + Whole::gain_slot(i)];
        sum_gn = fmaf(g[p][i], normal, sum_gn);
        dweight[p][i] = fmaf(dy[i], normal, dweight[p][i]);
        sum_g = __fadd_rn(sum_g, g[p][i]);
      }
    }
    const float mean_g = row_sum<Whole::kLanes>(sum_g, nullptr) * kScale;
    const float mean_gn = row_sum<Whole::kLanes>(sum_gn, nullptr) * kScale;
    const RowGradient gradient(stats.rstd, mean_g, mean_gn);
    const bool there = row < end;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const auto residual = stages.template load<N>(stage, kResidual, p);
      const auto dx = Packed<N>::of([&](int i) { return gradient(residual[i], g[p][i], centred[p][i]); });
      dx.store_if(there, args.dx + at + p * kSlab);
      if constexpr (kDropped) {
        dropped(rule, dx, row, column + p * kSlab).store_if(there, args.dropped + at + p * kSlab);
      }
    }
  }
  __pipeline_wait_prior(0);
  __syncthreads();  // from here on the stages' memory is the sums'
  if (!args.dweight) return;
  write_partials<Whole::kLanes>(dweight, Whole::kCols, reinterpret_cast<float*>(memory),
                                args.dweight + int64_t{blockIdx.x} * Whole::kCols);
}

}  // namespace
}  // namespace gradmill
