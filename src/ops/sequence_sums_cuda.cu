// SPDX-License-Identifier: Apache-2.0
// Sums by sequence on a GPU: a block a sequence, each thread its own rows in order, then the threads in order.
#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/reduce.cuh"
#include "ops/sequence_sums.h"

namespace gradmill {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    sequence_sums_kernel(const float* __restrict__ values, const int32_t* __restrict__ cu, float* sums) {
  __shared__ double shared[cuda::kWarpSize];
  const int end = cu[blockIdx.x + 1];
  double sum = 0;
#pragma unroll 4
  for (int row = cu[blockIdx.x] + static_cast<int>(threadIdx.x); row < end; row += kThreads) sum += double(values[row]);
  sum = cuda::block_reduce(sum, cuda::Sum{}, 0.0, shared);
  if (threadIdx.x == 0) sums[blockIdx.x] = static_cast<float>(sum);
}

}  // namespace

template <Device D, class T>
void sequence_sums(ExecContext& ctx, const SequenceSumsArgs& args) {
  if (args.sums.numel() == 0) return;
  cuda::launch({static_cast<unsigned>(args.sums.numel()), kThreads, cuda::stream_of(ctx)}, sequence_sums_kernel,
               args.values.ptr<float>(), args.cu.ptr<int32_t>(), args.sums.ptr<float>());
}

template void sequence_sums<Device::cuda, float>(ExecContext&, const SequenceSumsArgs&);

}  // namespace gradmill
