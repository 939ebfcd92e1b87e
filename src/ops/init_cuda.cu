// SPDX-License-Identifier: Apache-2.0
#include "core/rng.h"
#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/numeric.cuh"
#include "cuda/philox.cuh"
#include "ops/init.h"

namespace gradmill {
namespace {

constexpr int kThreads = 256;

__device__ float2 to_normal_pair(uint32_t a, uint32_t b) {
  const float radius = sqrtf(-2.0f * logf((static_cast<float>(a >> 8) + 0.5f) * 0x1p-24f));
  float sine, cosine;
  sincosf(6.2831853071795864f * (static_cast<float>(b >> 8) * 0x1p-24f), &sine, &cosine);
  return {radius * cosine, radius * sine};
}

__device__ float to_symmetric(uint32_t word) { return 2 * (static_cast<float>(word >> 8) * 0x1p-24f) - 1; }

template <class N>
struct RandomFill {
  N* values;
  int64_t size;
  float mean, std;
  bool uniform;
  uint64_t seed;
  uint32_t param;
};

template <class N>
__global__ void random_kernel(const RandomFill<N> args) {
  const int64_t block = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (4 * block >= args.size) return;
  const uint4 words = cuda::philox(args.seed, make_uint4(static_cast<uint32_t>(block), args.param, 0, RngSite::kInit));
  float parts[4];
  if (args.uniform) {
    parts[0] = to_symmetric(words.x), parts[1] = to_symmetric(words.y);
    parts[2] = to_symmetric(words.z), parts[3] = to_symmetric(words.w);
  } else {
    const float2 low = to_normal_pair(words.x, words.y), high = to_normal_pair(words.z, words.w);
    parts[0] = low.x, parts[1] = low.y, parts[2] = high.x, parts[3] = high.y;
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (4 * block + j < args.size) args.values[4 * block + j] = cuda::from_float<N>(args.mean + args.std * parts[j]);
  }
}

template <class N>
__global__ void constant_kernel(N* values, int64_t size, float value) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < size) values[i] = cuda::from_float<N>(value);
}

unsigned blocks_for(int64_t threads) { return static_cast<unsigned>((threads + kThreads - 1) / kThreads); }

}  // namespace

template <Device D, class T>
void init_values(ExecContext& ctx, const InitArgs& args) {
  using N = cuda::Native<T>;
  const int64_t size = args.to.numel();
  if (size == 0) return;
  N* values = cuda::native<T>(args.to);
  if (args.std == 0) {
    cuda::launch({blocks_for(size), kThreads, cuda::stream_of(ctx)}, constant_kernel<N>, values, size, args.mean);
  } else {
    const RandomFill<N> fill{values, size, args.mean, args.std, args.uniform, args.seed, args.param};
    cuda::launch({blocks_for((size + 3) / 4), kThreads, cuda::stream_of(ctx)}, random_kernel<N>, fill);
  }
}

template void init_values<Device::cuda, float>(ExecContext&, const InitArgs&);
template void init_values<Device::cuda, Bf16>(ExecContext&, const InitArgs&);
template void init_values<Device::cuda, Fp16>(ExecContext&, const InitArgs&);

}  // namespace gradmill
