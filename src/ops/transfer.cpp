// SPDX-License-Identifier: Apache-2.0
#include "ops/transfer.h"

#include <cstring>

namespace gradmill {
namespace {

void copy(ExecContext& ctx, void* to, const void* from, size_t bytes) {
  if constexpr (kHasCuda) {
    if (ctx.device.kind == DeviceKind::cuda) return copy_bytes<Device::cuda>(ctx, to, from, bytes);
  }
  std::memcpy(to, from, bytes);
}

}  // namespace

void copy_to_device(ExecContext& ctx, const TensorView& to, const void* host) {
  assert(!ctx.dry && to.contiguous());
  copy(ctx, to.data, host, to.bytes());
}

void copy_to_host(ExecContext& ctx, void* host, const TensorView& from) {
  assert(!ctx.dry && from.contiguous());
  copy(ctx, host, from.data, from.bytes());
}

void copy_on_device(ExecContext& ctx, const TensorView& to, const TensorView& from) {
  assert(!ctx.dry && to.contiguous() && from.contiguous() && to.bytes() == from.bytes());
  copy(ctx, to.data, from.data, to.bytes());
}

void fill_zero(ExecContext& ctx, const TensorView& to) {
  assert(!ctx.dry && to.contiguous());
  if constexpr (kHasCuda) {
    if (ctx.device.kind == DeviceKind::cuda) return zero_bytes<Device::cuda>(ctx, to.data, to.bytes());
  }
  std::memset(to.data, 0, to.bytes());
}

}  // namespace gradmill
