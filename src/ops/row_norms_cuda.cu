// SPDX-License-Identifier: Apache-2.0
// Squared norms of rows on CUDA: one block per row. Runs once, when weights are loaded.
#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/numeric.cuh"
#include "cuda/reduce.cuh"
#include "ops/row_norms.h"

namespace gradmill {
namespace {

constexpr int kThreads = 256;

template <class N>
__global__ void __launch_bounds__(kThreads) row_norms_kernel(const N* x, int64_t stride, int64_t cols, float* squares) {
  __shared__ float sums[kThreads / cuda::kWarpSize];
  const N* row = x + blockIdx.x * stride;
  float sum = 0;
#pragma unroll 4
  for (int64_t c = threadIdx.x; c < cols; c += kThreads) {
    const float value = cuda::to_float(row[c]);
    sum = fmaf(value, value, sum);
  }
  sum = cuda::block_reduce(sum, cuda::Sum{}, 0.0f, sums);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

}  // namespace

template <Device D, class T>
void row_norms(ExecContext& ctx, const RowNormsArgs& args) {
  if (args.x.rows() == 0) return;
  cuda::launch({static_cast<unsigned>(args.x.rows()), kThreads, cuda::stream_of(ctx)},
               row_norms_kernel<cuda::Native<T>>, cuda::native<T>(args.x), args.x.row_stride, args.x.cols(),
               args.squares.ptr<float>());
}

template void row_norms<Device::cuda, float>(ExecContext&, const RowNormsArgs&);
template void row_norms<Device::cuda, Bf16>(ExecContext&, const RowNormsArgs&);
template void row_norms<Device::cuda, Fp16>(ExecContext&, const RowNormsArgs&);

}  // namespace gradmill
