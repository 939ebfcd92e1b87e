// SPDX-License-Identifier: Apache-2.0
// Scattered rows on a GPU: one warp per row.
#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/numeric.cuh"
#include "cuda/reduce.cuh"
#include "ops/scatter_rows.h"

namespace gradmill {
namespace {

constexpr int kThreads = 256, kRowsPerBlock = kThreads / cuda::kWarpSize;

template <class N>
struct Rows {
  const N* from;
  N* to;
  const int32_t* indices;
  int64_t from_stride, to_stride, count, cols;
};

template <class N, int kPack>
__global__ void __launch_bounds__(kThreads) scatter_rows_kernel(const Rows<N> rows) {
  using Vector = cuda::Pack<N, kPack>;
  const int64_t row = int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / cuda::kWarpSize;
  if (row >= rows.count) return;
  const N* from = rows.from + row * rows.from_stride;
  N* to = rows.to + rows.indices[row] * rows.to_stride;
#pragma unroll 4
  for (int64_t col = threadIdx.x % cuda::kWarpSize * kPack; col < rows.cols; col += cuda::kWarpSize * kPack) {
    Vector::load(from + col).store(to + col);
  }
}

}  // namespace

template <Device D, class T>
void scatter_rows(ExecContext& ctx, const ScatterRowsArgs& args) {
  using N = cuda::Native<T>;
  const Rows<N> rows{.from = cuda::native<T>(args.from),
                     .to = cuda::native<T>(args.to),
                     .indices = args.indices.ptr<int32_t>(),
                     .from_stride = args.from.row_stride,
                     .to_stride = args.to.row_stride,
                     .count = args.from.rows(),
                     .cols = args.from.cols()};
  if (rows.count == 0) return;
  const auto blocks = static_cast<unsigned>((rows.count + kRowsPerBlock - 1) / kRowsPerBlock);
  const cuda::LaunchConfig config(blocks, kThreads, cuda::stream_of(ctx));
  if (cuda::rows_are_aligned<T>(args.from) && cuda::rows_are_aligned<T>(args.to)) {
    cuda::launch(config, scatter_rows_kernel<N, 16 / sizeof(N)>, rows);
  } else {
    cuda::launch(config, scatter_rows_kernel<N, 1>, rows);
  }
}

template void scatter_rows<Device::cuda, float>(ExecContext&, const ScatterRowsArgs&);
template void scatter_rows<Device::cuda, Bf16>(ExecContext&, const ScatterRowsArgs&);
template void scatter_rows<Device::cuda, Fp16>(ExecContext&, const ScatterRowsArgs&);

}  // namespace gradmill
