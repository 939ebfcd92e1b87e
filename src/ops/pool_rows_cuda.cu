// SPDX-License-Identifier: Apache-2.0
// Pooled rows on a GPU. Forward: a block has a sequence and some columns; for a mean, eight groups of threads take
// every eighth row and are added in order. Backward: one warp per row, which searches for its sequence in the offsets.
#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/numeric.cuh"
#include "cuda/reduce.cuh"
#include "ops/pool_rows.h"

namespace gradmill {
namespace {

using cuda::Pack;

constexpr int kLanes = 32, kGroups = 8, kThreads = kLanes * kGroups;

template <class N>
struct Pooled {
  const N* x;
  const int32_t* cu;
  N* y;
  int64_t x_stride, y_stride, cols;
  Pooling kind;
};

template <class N, int kPack>
__global__ void __launch_bounds__(kThreads) pool_kernel(const Pooled<N> args) {
  __shared__ float shared[kGroups][kLanes * kPack];
  const int64_t begin = args.cu[blockIdx.x], end = args.cu[blockIdx.x + 1];
  const int64_t col = (int64_t{blockIdx.y} * kLanes + threadIdx.x) * kPack;
  const bool in_row = col < args.cols;
  const bool mean = args.kind == Pooling::mean;
  float sums[kPack] = {};
  // First and last are means over a single row.
  const int64_t from = args.kind == Pooling::last ? max(begin, end - 1) : begin;
  const int64_t to = mean ? end : min(end, from + 1);
  if (in_row) {
#pragma unroll 4
    for (int64_t row = from + threadIdx.y; row < to; row += kGroups) {
      const auto values = Pack<N, kPack>::load(args.x + row * args.x_stride + col);
#pragma unroll
      for (int i = 0; i < kPack; ++i) sums[i] += values[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) shared[threadIdx.y][threadIdx.x * kPack + i] = sums[i];
  __syncthreads();
  if (threadIdx.y != 0 || !in_row) return;
  for (int group = 1; group < kGroups; ++group) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) sums[i] += shared[group][threadIdx.x * kPack + i];
  }
  const float share = to > from ? 1.0f / static_cast<float>(to - from) : 0.0f;
  Pack<N, kPack> y;
#pragma unroll
  for (int i = 0; i < kPack; ++i) y.set(i, sums[i] * share);
  y.store(args.y + blockIdx.x * args.y_stride + col);
}

template <class N>
struct Spread {
  const int32_t* cu;
  const N* dy;
  N* dx;
  int64_t dy_stride, dx_stride, rows, cols;
  int seqs;
  Pooling kind;
};

// The last sequence that begins at or before `row`; `seqs` for a row after all of them.
__device__ int sequence_of(const int32_t* cu, int seqs, int64_t row) {
  int low = 0, high = seqs + 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (cu[middle] <= row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - 1;
}

template <class N, int kPack>
__global__ void __launch_bounds__(kThreads) spread_kernel(const Spread<N> args) {
  const int64_t row = int64_t{blockIdx.x} * kGroups + threadIdx.y;
  if (row >= args.rows) return;
  const int s = sequence_of(args.cu, args.seqs, row);
  float share = 0;
  if (s >= 0 && s < args.seqs) {
    const int64_t begin = args.cu[s], end = args.cu[s + 1];
    if (args.kind == Pooling::mean) {
      share = 1.0f / static_cast<float>(end - begin);
    } else {
      share = row == (args.kind == Pooling::first ? begin : end - 1) ? 1.0f : 0.0f;
    }
  }
  for (int64_t col = threadIdx.x * kPack; col < args.cols; col += kLanes * kPack) {
    Pack<N, kPack> dx;
    if (share == 0) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) dx.set(i, 0);
    } else {
      const auto dy = Pack<N, kPack>::load(args.dy + s * args.dy_stride + col);
#pragma unroll
      for (int i = 0; i < kPack; ++i) dx.set(i, dy[i] * share);
    }
    dx.store(args.dx + row * args.dx_stride + col);
  }
}

}  // namespace

template <Device D, class T>
void pool_rows_forward(ExecContext& ctx, const PoolRowsArgs& args) {
  using N = cuda::Native<T>;
  constexpr int kPack = 16 / sizeof(N);
  const Pooled<N> pooled{.x = cuda::native<T>(args.x),
                         .cu = args.cu.ptr<int32_t>(),
                         .y = cuda::native<T>(args.y),
                         .x_stride = args.x.row_stride,
                         .y_stride = args.y.row_stride,
                         .cols = args.x.cols(),
                         .kind = args.kind};
  const bool aligned = cuda::rows_are_aligned<T>(args.x) && cuda::rows_are_aligned<T>(args.y);
  const int64_t width = kLanes * (aligned ? kPack : 1);
  const dim3 grid(static_cast<unsigned>(args.y.rows()), static_cast<unsigned>((pooled.cols + width - 1) / width));
  if (args.y.rows() == 0) return;
  cuda::launch({grid, dim3(kLanes, kGroups), cuda::stream_of(ctx)}, aligned ? pool_kernel<N, kPack> : pool_kernel<N, 1>,
               pooled);
}

template <Device D, class T>
void pool_rows_backward(ExecContext& ctx, const PoolRowsGradArgs& args) {
  using N = cuda::Native<T>;
  constexpr int kPack = 16 / sizeof(N);
  const Spread<N> spread{.cu = args.cu.ptr<int32_t>(),
                         .dy = cuda::native<T>(args.dy),
                         .dx = cuda::native<T>(args.dx),
                         .dy_stride = args.dy.row_stride,
                         .dx_stride = args.dx.row_stride,
                         .rows = args.dx.rows(),
                         .cols = args.dx.cols(),
                         .seqs = static_cast<int>(args.dy.rows()),
                         .kind = args.kind};
  if (spread.rows == 0) return;
  const bool aligned = cuda::rows_are_aligned<T>(args.dx) && cuda::rows_are_aligned<T>(args.dy);
  const auto blocks = static_cast<unsigned>((spread.rows + kGroups - 1) / kGroups);
  cuda::launch({dim3(blocks), dim3(kLanes, kGroups), cuda::stream_of(ctx)},
               aligned ? spread_kernel<N, kPack> : spread_kernel<N, 1>, spread);
}

template void pool_rows_forward<Device::cuda, float>(ExecContext&, const PoolRowsArgs&);
template void pool_rows_forward<Device::cuda, Bf16>(ExecContext&, const PoolRowsArgs&);
template void pool_rows_forward<Device::cuda, Fp16>(ExecContext&, const PoolRowsArgs&);
template void pool_rows_backward<Device::cuda, float>(ExecContext&, const PoolRowsGradArgs&);
template void pool_rows_backward<Device::cuda, Bf16>(ExecContext&, const PoolRowsGradArgs&);
template void pool_rows_backward<Device::cuda, Fp16>(ExecContext&, const PoolRowsGradArgs&);

}  // namespace gradmill
