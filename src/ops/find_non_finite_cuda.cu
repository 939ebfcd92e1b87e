// SPDX-License-Identifier: Apache-2.0
// One warp per row; the smallest bad row wins. "None" is -1, which is the largest unsigned number.
#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/numeric.cuh"
#include "cuda/reduce.cuh"
#include "ops/find_non_finite.h"

namespace gradmill {
namespace {

constexpr int kThreads = 256, kRowsPerBlock = kThreads / cuda::kWarpSize;

template <class N, int kPack>
__global__ void __launch_bounds__(kThreads)
    find_non_finite_kernel(const N* __restrict__ x, int64_t stride, int64_t rows, int64_t cols, uint32_t* found) {
  const int64_t row = int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / cuda::kWarpSize;
  if (row >= rows) return;
  bool bad = false;
#pragma unroll 4
  for (int64_t col = threadIdx.x % cuda::kWarpSize * kPack; col < cols; col += cuda::kWarpSize * kPack) {
    const auto values = cuda::Pack<N, kPack>::load(x + row * stride + col);
    for (int i = 0; i < kPack; ++i) bad |= !isfinite(values[i]);
  }
  if (__any_sync(0xffffffffu, bad) && threadIdx.x % cuda::kWarpSize == 0) {
    atomicMin(found, static_cast<uint32_t>(row));
  }
}

}  // namespace

template <Device D, class T>
void find_non_finite(ExecContext& ctx, const TensorView& x, const TensorView& row) {
  using N = cuda::Native<T>;
  const cudaStream_t stream = cuda::stream_of(ctx);
  cuda::check(cudaMemsetAsync(row.data, 0xff, sizeof(int32_t), stream), "clearing the row found");
  if (x.rows() == 0) return;
  const auto blocks = static_cast<unsigned>((x.rows() + kRowsPerBlock - 1) / kRowsPerBlock);
  const auto kernel =
      cuda::rows_are_aligned<T>(x) ? find_non_finite_kernel<N, 16 / sizeof(N)> : find_non_finite_kernel<N, 1>;
  cuda::launch({blocks, kThreads, stream}, kernel, cuda::native<T>(x), x.row_stride, x.rows(), x.cols(),
               reinterpret_cast<uint32_t*>(row.ptr<int32_t>()));
}

template void find_non_finite<Device::cuda, float>(ExecContext&, const TensorView&, const TensorView&);
template void find_non_finite<Device::cuda, Bf16>(ExecContext&, const TensorView&, const TensorView&);
template void find_non_finite<Device::cuda, Fp16>(ExecContext&, const TensorView&, const TensorView&);

}  // namespace gradmill
