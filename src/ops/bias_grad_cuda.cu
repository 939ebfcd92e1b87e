// SPDX-License-Identifier: Apache-2.0
// Column sums on CUDA: each block adds a chunk of rows over 512 bytes of columns, then the chunks' sums are added.
#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/packed.cuh"
#include "cuda/partials.cuh"
#include "cuda/reduce.cuh"
#include "ops/bias_grad.h"

namespace gradmill {
namespace {

using cuda::kWarpSize;
using cuda::Packed;

constexpr int kWarps = 8;
constexpr int kUnroll = 4;  // rows of a warp in flight: 64 bytes a thread, 64 KB a multiprocessor

template <class N>
struct SumRows {
  const N* dy;
  int64_t stride, rows, cols, chunk_rows;
  float* partials;  // (chunks, cols)
};

// A lane keeps the sums of its columns; the warps take the rows of the chunk in turn and meet at the end.
template <class N, int kPack>
__global__ void __launch_bounds__(kWarpSize* kWarps, 4) bias_grad_kernel(const SumRows<N> args) {
  __shared__ float sums[kWarps][kWarpSize * kPack];
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int64_t first_column = int64_t{blockIdx.x} * kWarpSize * kPack, column = first_column + lane * kPack;
  const int64_t begin = blockIdx.y * args.chunk_rows, end = min(begin + args.chunk_rows, args.rows);
  float sum[kPack] = {};
  if (column < args.cols) {
#pragma unroll 1
    for (int64_t row = begin + warp; row < end; row += kWarps * kUnroll) {
      Packed<N, kPack> dy[kUnroll] = {};
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int64_t at = row + u * kWarps;
        if (at < end) dy[u] = Packed<N, kPack>::load(args.dy + at * args.stride + column);
      }
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum[i] += (dy[0][i] + dy[1][i]) + (dy[2][i] + dy[3][i]);
    }
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) sums[warp][lane * kPack + i] = sum[i];
  __syncthreads();
  for (int c = warp * kWarpSize + lane; c < kWarpSize * kPack && first_column + c < args.cols;
       c += kWarps * kWarpSize) {
    float total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += sums[w][c];
    args.partials[blockIdx.y * args.cols + first_column + c] = total;
  }
}

template <class N, int kPack>
void sum_chunks(ExecContext& ctx, const SumRows<N>& rows, int64_t chunks) {
  if (chunks == 0) return;
  const int64_t columns = kWarpSize * kPack;
  const dim3 grid(static_cast<unsigned>((rows.cols + columns - 1) / columns), static_cast<unsigned>(chunks));
  cuda::launch(cuda::LaunchConfig{grid, dim3(kWarpSize, kWarps), cuda::stream_of(ctx)}, bias_grad_kernel<N, kPack>,
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
  cuda::add_partials(cuda::stream_of(ctx), count, cols, {sums, args.dbias.ptr<float>(), args.beta});
}

template void bias_grad<Device::cuda, float>(ExecContext&, const BiasGradArgs&, const TensorView&);
template void bias_grad<Device::cuda, Bf16>(ExecContext&, const BiasGradArgs&, const TensorView&);
template void bias_grad<Device::cuda, Fp16>(ExecContext&, const BiasGradArgs&, const TensorView&);

}  // namespace gradmill
