// SPDX-License-Identifier: Apache-2.0
#include "core/rng.h"
#include "cuda/engine.h"
#include "cuda/launch.h"
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

__global__ void normal_kernel(float* values, int64_t size, float mean, float std, uint64_t seed, uint32_t param) {
  const int64_t block = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (4 * block >= size) return;
  const uint4 words = cuda::philox(seed, make_uint4(static_cast<uint32_t>(block), param, 0, RngSite::kInit));
  const float2 low = to_normal_pair(words.x, words.y), high = to_normal_pair(words.z, words.w);
  const float normals[4] = {low.x, low.y, high.x, high.y};
  for (int j = 0; j < 4 && 4 * block + j < size; ++j) values[4 * block + j] = mean + std * normals[j];
}

__global__ void constant_kernel(float* values, int64_t size, float value) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < size) values[i] = value;
}

unsigned blocks_for(int64_t threads) { return static_cast<unsigned>((threads + kThreads - 1) / kThreads); }

}  // namespace

template <>
void init_values<Device::cuda, float>(ExecContext& ctx, const InitArgs& args) {
  const int64_t size = args.to.numel();
  if (size == 0) return;
  float* values = args.to.ptr<float>();
  if (args.std == 0) {
    cuda::launch({blocks_for(size), kThreads, cuda::stream_of(ctx)}, constant_kernel, values, size, args.mean);
  } else {
    cuda::launch({blocks_for((size + 3) / 4), kThreads, cuda::stream_of(ctx)}, normal_kernel, values, size, args.mean,
                 args.std, args.seed, args.param);
  }
}

}  // namespace gradmill
