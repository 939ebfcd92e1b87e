// SPDX-License-Identifier: Apache-2.0
// Averages on a GPU: memory-bound passes; 12 bytes per element for the average and 16 for the exchange.
#include "ops/ema.h"

#include <algorithm>

#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/numeric.cuh"

namespace gradmill {
namespace {

constexpr int kThreads = 256;
using Floats = cuda::Pack<float>;

// The same computation as on the CPU, with the same rounding.
__device__ float average_of(float average, float weight, float decay) {
  return __fadd_rn(__fmul_rn(decay, average), __fmul_rn(1 - decay, weight));
}

// Processes `vectors` packs, then the remaining elements one by one.
__global__ void __launch_bounds__(kThreads)
    ema_kernel(float* __restrict__ average, const float* __restrict__ weights, float decay, int64_t size,
               int64_t vectors, const StepScalars* scalars) {
  if (scalars->finite == 0) return;
  const int64_t stride = int64_t{gridDim.x} * kThreads, thread = int64_t{blockIdx.x} * kThreads + threadIdx.x;
#pragma unroll 4
  for (int64_t i = thread; i < vectors; i += stride) {
    Floats old = Floats::load(average + i * Floats::kSize);
    const Floats weight = Floats::load(weights + i * Floats::kSize);
    for (int j = 0; j < Floats::kSize; ++j) old.values[j] = average_of(old.values[j], weight.values[j], decay);
    old.store(average + i * Floats::kSize);
  }
  for (int64_t i = vectors * Floats::kSize + thread; i < size; i += stride) {
    average[i] = average_of(average[i], weights[i], decay);
  }
}

__global__ void __launch_bounds__(kThreads)
    exchange_kernel(float* __restrict__ a, float* __restrict__ b, int64_t size, int64_t vectors) {
  const int64_t stride = int64_t{gridDim.x} * kThreads, thread = int64_t{blockIdx.x} * kThreads + threadIdx.x;
#pragma unroll 4
  for (int64_t i = thread; i < vectors; i += stride) {
    const Floats left = Floats::load(a + i * Floats::kSize), right = Floats::load(b + i * Floats::kSize);
    right.store(a + i * Floats::kSize);
    left.store(b + i * Floats::kSize);
  }
  for (int64_t i = vectors * Floats::kSize + thread; i < size; i += stride) {
    const float left = a[i];
    a[i] = b[i];
    b[i] = left;
  }
}

int64_t num_vectors(const TensorView& a, const TensorView& b) {
  const bool aligned = (reinterpret_cast<uintptr_t>(a.data) | reinterpret_cast<uintptr_t>(b.data)) % 16 == 0;
  return aligned ? a.numel() / Floats::kSize : 0;
}

// As many threads as fit on the GPU, but at most one per vector.
cuda::LaunchConfig config_for(const ExecContext& ctx, int64_t size) {
  const int64_t wanted = (size / Floats::kSize + kThreads) / kThreads, resident = 8 * int64_t{ctx.device.num_units};
  return {static_cast<unsigned>(std::min(wanted, resident)), kThreads, cuda::stream_of(ctx)};
}

}  // namespace

template <Device D, class T>
void ema_update(ExecContext& ctx, const EmaArgs& args) {
  cuda::launch(config_for(ctx, args.average.numel()), ema_kernel, args.average.ptr<float>(), args.weights.ptr<float>(),
               args.decay, args.average.numel(), num_vectors(args.average, args.weights), ctx.scalars);
}

template <Device D, class T>
void exchange(ExecContext& ctx, const TensorView& a, const TensorView& b) {
  cuda::launch(config_for(ctx, a.numel()), exchange_kernel, a.ptr<float>(), b.ptr<float>(), a.numel(),
               num_vectors(a, b));
}

template void ema_update<Device::cuda, float>(ExecContext&, const EmaArgs&);
template void exchange<Device::cuda, float>(ExecContext&, const TensorView&, const TensorView&);

}  // namespace gradmill
