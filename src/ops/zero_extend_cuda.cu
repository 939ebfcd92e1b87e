// SPDX-License-Identifier: Apache-2.0
// Copy with zero padding on CUDA: one kernel instead of a copy and a memset.
#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/packed.cuh"
#include "ops/zero_extend.h"

namespace gradmill {
namespace {

using cuda::Packed;

constexpr int kThreads = 256;

template <class N, int kPack>
__global__ void __launch_bounds__(kThreads)
    zero_extend_kernel(const N* __restrict__ from, int64_t size, N* __restrict__ to, int64_t extended) {
  const int64_t i = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack;
  if (i >= extended) return;
  if (i + kPack <= size) {
    Packed<N, kPack>::load(from + i).store(to + i);
  } else {
    Packed<N, kPack>::of([&](int j) { return i + j < size ? cuda::to_float(from[i + j]) : 0.0f; }).store(to + i);
  }
}

template <class N, int kPack>
void extend(cudaStream_t stream, const N* from, int64_t size, N* to, int64_t extended) {
  constexpr int64_t kPerBlock = kThreads * kPack;
  const auto blocks = static_cast<unsigned>((extended + kPerBlock - 1) / kPerBlock);
  cuda::launch({blocks, kThreads, stream}, zero_extend_kernel<N, kPack>, from, size, to, extended);
}

bool is_aligned(const TensorView& view) { return reinterpret_cast<uintptr_t>(view.data) % 16 == 0; }

}  // namespace

template <Device D, class T>
void zero_extend(ExecContext& ctx, const ZeroExtendArgs& args) {
  using N = cuda::Native<T>;
  constexpr int kPack = 16 / sizeof(N);
  if (args.to.numel() == 0) return;
  const bool packs = is_aligned(args.from) && is_aligned(args.to) && args.to.numel() % kPack == 0;
  const auto run = packs ? extend<N, kPack> : extend<N, 1>;
  run(cuda::stream_of(ctx), cuda::native<T>(args.from), args.from.numel(), cuda::native<T>(args.to), args.to.numel());
}

template void zero_extend<Device::cuda, float>(ExecContext&, const ZeroExtendArgs&);
template void zero_extend<Device::cuda, Bf16>(ExecContext&, const ZeroExtendArgs&);
template void zero_extend<Device::cuda, Fp16>(ExecContext&, const ZeroExtendArgs&);

}  // namespace gradmill
