// SPDX-License-Identifier: Apache-2.0
#include "cuda/engine.h"
#include "ops/transfer.h"

namespace gradmill {

template <>
void copy_bytes<Device::cuda>(ExecContext& ctx, void* to, const void* from, size_t bytes) {
  cuda::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, ctx.cuda->stream()), "copying");
  ctx.cuda->synchronise();
}

template <>
void zero_bytes<Device::cuda>(ExecContext& ctx, void* to, size_t bytes) {
  cuda::check(cudaMemsetAsync(to, 0, bytes, ctx.cuda->stream()), "zeroing memory");
  ctx.cuda->synchronise();
}

}  // namespace gradmill
