// SPDX-License-Identifier: Apache-2.0
// Column sums on CUDA: each block sums a chunk of rows over 512 bytes of columns, then the sums of the chunks are
// added.
#include "cuda/engine.h"
#include "cuda/launch.h"
#include "ops/bias_grad.h"
#include "ops/bias_grad_sums.cuh"
#include "ops/partial_sums.h"

namespace gradmill {
namespace {

using cuda::kWarpSize;
using cuda::Packed;

constexpr int kUnroll = 4;  // rows of a warp in flight: 64 bytes per thread, 64 KB per multiprocessor

template <class N>
struct SumRows {
  const N* dy;
  int64_t stride, rows, cols, chunk_rows;
  float* partials;  // (chunks, cols)
};

template <class N, int kPack>
__global__ void __launch_bounds__(kWarpSize* kBiasWarps, 4) bias_grad_kernel(const SumRows<N> args) {
  ColumnSums<N, kPack> sums;
  const int64_t first_column = int64_t{blockIdx.x} * sums.kColumns, column = first_column + threadIdx.x * kPack;
  const int64_t begin = blockIdx.y * args.chunk_rows, end = min(begin + args.chunk_rows, args.rows);
  if (column < args.cols) {
#pragma unroll 1
    for (int64_t row = begin + threadIdx.y; row < end; row += kBiasWarps * kUnroll) {
      Packed<N, kPack> dy[kUnroll] = {};
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int64_t at = row + u * kBiasWarps;
        if (at < end) dy[u] = Packed<N, kPack>::load(args.dy + at * args.stride + column);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; u += 2) sums.add(dy[u], dy[u + 1]);
    }
  }
  sums.write(args.partials + blockIdx.y * args.cols + first_column, args.cols - first_column);
}

template <class N, int kPack>
void sum_chunks(ExecContext& ctx, const SumRows<N>& rows, int64_t chunks) {
  if (chunks == 0) return;
  const dim3 grid = column_sum_grid<kPack>(rows.cols, chunks);
  cuda::launch(cuda::LaunchConfig{grid, dim3(kWarpSize, kBiasWarps), cuda::stream_of(ctx)}, bias_grad_kernel<N, kPack>,
               rows);
}

}  // namespace

template <Device D, class T>
void bias_grad(ExecContext& ctx, const BiasGradArgs& args, const TensorView& partials) {
  using N = cuda::Native<T>;
  const int64_t count = partials.shape[0], num_rows = args.dy.rows(), cols = args.dy.cols();
  float* sums = partials.ptr<float>();
  const int64_t chunk_rows = count == 0 ? 0 : (num_rows + count - 1) / count;
  const SumRows<N> rows{cuda::native<T>(args.dy), args.dy.row_stride, num_rows, cols, chunk_rows, sums};
  if (cuda::rows_are_aligned<T>(args.dy)) {
    sum_chunks<N, 16 / sizeof(N)>(ctx, rows, count);
  } else {
    sum_chunks<N, 1>(ctx, rows, count);
  }
  const TensorView of_chunks(sums, DType::fp32, {count, cols});
  add_partial_sums<Device::cuda>(ctx, {{PartialSum{of_chunks, args.dbias, args.beta}}});
}

template void bias_grad<Device::cuda, float>(ExecContext&, const BiasGradArgs&, const TensorView&);
template void bias_grad<Device::cuda, Bf16>(ExecContext&, const BiasGradArgs&, const TensorView&);
template void bias_grad<Device::cuda, Fp16>(ExecContext&, const BiasGradArgs&, const TensorView&);

}  // namespace gradmill
