// SPDX-License-Identifier: Apache-2.0
// DoRA's gains on CUDA: one warp per row. Its lanes share the columns of A Aᵀ, which stay in the cache.
#include <cfloat>

#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/numeric.cuh"
#include "cuda/reduce.cuh"
#include "ops/dora_gain.h"

namespace gradmill {
namespace {

using cuda::kWarpSize;
constexpr int kWarps = 8;

template <class N>
struct GainRows {
  const float *base_norms, *product, *gram;
  const N* b;
  const float* magnitude;  // null: returns the norm
  float* gain;
  int64_t rows;
  int rank;
  float scale;
};

template <class N>
__global__ void __launch_bounds__(kWarpSize* kWarps) dora_gain_kernel(const GainRows<N> args) {
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.y;
  if (row >= args.rows) return;
  const N* b = args.b + row * args.rank;
  const float* product = args.product + row * args.rank;
  float cross = 0, square = 0;
  for (int j = lane; j < args.rank; j += kWarpSize) {
    float sum = 0;
    for (int k = 0; k < args.rank; ++k) sum = fmaf(args.gram[k * args.rank + j], cuda::to_float(b[k]), sum);
    const float own = cuda::to_float(b[j]);
    cross = fmaf(product[j], own, cross);
    square = fmaf(sum, own, square);
  }
  cross = cuda::warp_reduce(cross, cuda::Sum{});
  square = cuda::warp_reduce(square, cuda::Sum{});
  if (lane != 0) return;
  const float total = args.base_norms[row] + 2 * args.scale * cross + args.scale * args.scale * square;
  // A row of zeros has no direction. Rounding may even make the sum negative.
  const float norm = sqrtf(fmaxf(total, FLT_MIN));
  args.gain[row] = args.magnitude ? args.magnitude[row] / norm : norm;
}

}  // namespace

template <Device D, class T>
void dora_gain(ExecContext& ctx, const DoraGainArgs& args) {
  using N = cuda::Native<T>;
  const int64_t rows = args.b.rows();
  if (rows == 0) return;
  const GainRows<N> call{args.base_norms.ptr<float>(),
                         args.product.ptr<float>(),
                         args.gram.ptr<float>(),
                         cuda::native<T>(args.b),
                         args.magnitude.defined() ? args.magnitude.ptr<float>() : nullptr,
                         args.gain.ptr<float>(),
                         rows,
                         static_cast<int>(args.b.cols()),
                         args.scale};
  cuda::launch(cuda::LaunchConfig{dim3(static_cast<unsigned>((rows + kWarps - 1) / kWarps)), dim3(kWarpSize, kWarps),
                                  cuda::stream_of(ctx)},
               dora_gain_kernel<N>, call);
}

template void dora_gain<Device::cuda, float>(ExecContext&, const DoraGainArgs&);
template void dora_gain<Device::cuda, Bf16>(ExecContext&, const DoraGainArgs&);
template void dora_gain<Device::cuda, Fp16>(ExecContext&, const DoraGainArgs&);

}  // namespace gradmill
