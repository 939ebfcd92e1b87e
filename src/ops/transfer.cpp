// SPDX-License-Identifier: Apache-2.0
#include "ops/transfer.h"

#include <cstring>

#include "cpu/thread_pool.h"

namespace gradmill {
namespace {

void copy(ExecContext& ctx, void* to, const void* from, size_t bytes) {
  if constexpr (kHasCuda) {
    if (ctx.device.kind == DeviceKind::cuda) return copy_bytes<Device::cuda>(ctx, to, from, bytes);
  }
  std::memcpy(to, from, bytes);
}

// One thread does not use all of the memory's bandwidth. Calls use(begin, size) for parts of `bytes`.
template <class Use>
void in_parts(ExecContext& ctx, size_t bytes, Use&& use) {
  constexpr int64_t kPart = int64_t{1} << 20;
  cpu::parallel_for(*ctx.pool, static_cast<int64_t>(bytes), kPart, [&](int64_t begin, int64_t end) {
    use(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  });
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
  if constexpr (kHasCuda) {
    if (ctx.device.kind == DeviceKind::cuda) return copy_bytes<Device::cuda>(ctx, to.data, from.data, to.bytes());
  }
  auto* const target = static_cast<std::byte*>(to.data);
  const auto* const source = static_cast<const std::byte*>(from.data);
  in_parts(ctx, to.bytes(), [&](size_t begin, size_t size) { std::memcpy(target + begin, source + begin, size); });
}

void fill_zero(ExecContext& ctx, const TensorView& to) {
  assert(!ctx.dry && to.contiguous());
  if constexpr (kHasCuda) {
    if (ctx.device.kind == DeviceKind::cuda) return zero_bytes<Device::cuda>(ctx, to.data, to.bytes());
  }
  auto* const target = static_cast<std::byte*>(to.data);
  in_parts(ctx, to.bytes(), [&](size_t begin, size_t size) { std::memset(target + begin, 0, size); });
}

}  // namespace gradmill
