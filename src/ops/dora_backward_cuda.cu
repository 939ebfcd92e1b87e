// SPDX-License-Identifier: Apache-2.0
// DoRA's backward on CUDA: a block processes a chunk of rows over 512 bytes of columns, like the gradient of a bias,
// and reads y and dy once for both results: 6 bytes per bf16 element.
#include "cuda/engine.h"
#include "cuda/launch.h"
#include "ops/bias_grad_sums.cuh"
#include "ops/dora_backward.h"
#include "ops/partial_sums.h"

namespace gradmill {
namespace {

using cuda::kWarpSize;
using cuda::Packed;

constexpr int kUnroll = 2;  // rows of a warp in flight, from two tensors

template <class N>
struct DoraRows {
  const N *y, *dy;
  N* dz;
  int64_t y_stride, dy_stride, dz_stride, rows, cols, chunk_rows;
  const float *gain, *magnitude;
  const N* bias;    // may be null
  float* partials;  // (chunks, cols)
};

template <class N, int kPack>
__global__ void __launch_bounds__(kWarpSize* kBiasWarps) dora_backward_kernel(const DoraRows<N> args) {
  ColumnSums<N, kPack> sums;
  const int64_t first_column = int64_t{blockIdx.x} * sums.kColumns, column = first_column + threadIdx.x * kPack;
  const int64_t begin = blockIdx.y * args.chunk_rows, end = min(begin + args.chunk_rows, args.rows);
  if (column < args.cols) {
    float gain[kPack], bias[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      gain[i] = args.gain[column + i];
      bias[i] = args.bias ? cuda::to_float(args.bias[column + i]) : 0.0f;
    }
#pragma unroll 1
    for (int64_t row = begin + threadIdx.y; row < end; row += kBiasWarps * kUnroll) {
      Packed<N, kPack> y[kUnroll] = {}, dy[kUnroll] = {};
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int64_t at = row + u * kBiasWarps;
        if (at >= end) continue;
        y[u] = Packed<N, kPack>::load(args.y + at * args.y_stride + column);
        dy[u] = Packed<N, kPack>::load(args.dy + at * args.dy_stride + column);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int64_t at = row + u * kBiasWarps;
        if (at >= end) continue;
#pragma unroll
        for (int i = 0; i < kPack; ++i) sums.add_product(i, dy[u][i], y[u][i] - bias[i]);
        Packed<N, kPack>::of([&](int i) { return gain[i] * dy[u][i]; }).store(args.dz + at * args.dz_stride + column);
      }
    }
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const float by = args.magnitude[column + i];
      sums.scale(i, by == 0 ? 0.0f : 1.0f / by);
    }
  }
  sums.write(args.partials + blockIdx.y * args.cols + first_column, args.cols - first_column);
}

template <class N, int kPack>
void run_chunks(ExecContext& ctx, const DoraRows<N>& rows, int64_t chunks) {
  if (chunks == 0) return;
  cuda::launch(
      cuda::LaunchConfig{column_sum_grid<kPack>(rows.cols, chunks), dim3(kWarpSize, kBiasWarps), cuda::stream_of(ctx)},
      dora_backward_kernel<N, kPack>, rows);
}

}  // namespace

template <Device D, class T>
void dora_backward(ExecContext& ctx, const DoraGradArgs& args, const TensorView& partials) {
  using N = cuda::Native<T>;
  const int64_t count = partials.shape[0], num_rows = args.y.rows(), cols = args.y.cols();
  const DoraRows<N> rows{.y = cuda::native<T>(args.y),
                         .dy = cuda::native<T>(args.dy),
                         .dz = cuda::native<T>(args.dz),
                         .y_stride = args.y.row_stride,
                         .dy_stride = args.dy.row_stride,
                         .dz_stride = args.dz.row_stride,
                         .rows = num_rows,
                         .cols = cols,
                         .chunk_rows = count == 0 ? 0 : (num_rows + count - 1) / count,
                         .gain = args.gain.ptr<float>(),
                         .magnitude = args.magnitude.ptr<float>(),
                         .bias = args.bias.defined() ? cuda::native<T>(args.bias) : nullptr,
                         .partials = partials.ptr<float>()};
  const bool aligned =
      cuda::rows_are_aligned<T>(args.y) && cuda::rows_are_aligned<T>(args.dy) && cuda::rows_are_aligned<T>(args.dz);
  if (aligned) {
    run_chunks<N, 16 / sizeof(N)>(ctx, rows, count);
  } else {
    run_chunks<N, 1>(ctx, rows, count);
  }
  const TensorView sums(partials.data, DType::fp32, {count, cols});
  add_partial_sums<Device::cuda>(ctx, {{PartialSum{sums, args.dmagnitude, args.beta}}});
}

template void dora_backward<Device::cuda, float>(ExecContext&, const DoraGradArgs&, const TensorView&);
template void dora_backward<Device::cuda, Bf16>(ExecContext&, const DoraGradArgs&, const TensorView&);
template void dora_backward<Device::cuda, Fp16>(ExecContext&, const DoraGradArgs&, const TensorView&);

}  // namespace gradmill
