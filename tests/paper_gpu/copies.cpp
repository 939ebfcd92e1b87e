// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's functions that copy and set memory.
#include <cuda_runtime_api.h>

#include <cstring>
#include <functional>
#include <string_view>

#include "paper_gpu/memory.h"
#include "paper_gpu/model/launch_time.h"
#include "paper_gpu/model/library_time.h"
#include "paper_gpu/paper_gpu.h"
#include "paper_gpu/shadow.h"
#include "paper_gpu/status.h"
#include "paper_gpu/streams.h"

namespace gradmill::paper {
namespace {

bool is_locked(const void* data) { return Memory::host().holds(data); }

size_t hash_of(const void* data, size_t bytes) {
  return std::hash<std::string_view>()({static_cast<const char*>(data), bytes});
}

// Also copies the state of the bytes: unwritten bytes may be copied, but not used.
void move(void* to, const void* from, size_t bytes) {
  const bool on_device = Memory::device().holds(to) && Memory::device().holds(from);
  if (model::models_time()) take_time(model::copy_seconds(on_device ? 2 * double(bytes) : double(bytes)));
  constexpr size_t kLarge = size_t{64} << 20;
  if (!computes() && on_device && bytes >= kLarge) return;  // no kernel would read it
  std::memcpy(to, from, bytes);
  const auto target = reinterpret_cast<uint64_t>(to), source = reinterpret_cast<uint64_t>(from);
  if (!computes() || !in_space(target, bytes)) return;
  if (!Memory::device().holds(from)) return mark_written(to, bytes);
  const uint8_t* const known = state_of(source);
  uint8_t* const state = state_of(target);
  for (size_t i = 0; i < bytes; ++i) {
    state[i] = static_cast<uint8_t>((state[i] & ~kWritten) | (known[i] & kWritten));
  }
}

// Other host memory may be copied too, but not by a graph, which may run after it was freed.
void check_copied(const void* data, size_t bytes, bool is_device, cudaStream_t stream, const std::string& what) {
  const bool known = Memory::device().holds(data) || is_locked(data);
  if (is_device || known || is_captured(stream)) expect_inside(data, bytes, Where::device_or_host, what);
}

cudaError_t upload(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  return enqueue(stream, [=, before = hash_of(from, bytes)] {
    if (hash_of(from, bytes) != before) fault("page-locked memory was written again before its copy was waited for");
    move(to, from, bytes);
  });
}

cudaError_t download(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  constexpr int kNotYet = 0xcd;
  std::memset(to, kNotYet, bytes);
  return enqueue(stream, [=] {
    if (computes()) expect_readable(from, bytes, "a copy to the host");
    move(to, from, bytes);
  });
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  check_copied(to, bytes, to_device, stream, "a copy writes");
  check_copied(from, bytes, from_device, stream, "a copy reads");
  if (kind == cudaMemcpyHostToDevice && is_locked(from)) return upload(to, from, bytes, stream);
  if (kind == cudaMemcpyDeviceToHost && is_locked(to)) return download(to, from, bytes, stream);
  enqueue(stream, [=] { move(to, from, bytes); });
  const auto is_plain = [](const void* data) { return !Memory::device().holds(data) && !is_locked(data); };
  // The call returns once plain host memory has been read or written.
  return is_plain(to) || is_plain(from) ? cudaStreamSynchronize(stream) : cudaSuccess;
}

cudaError_t set(void* data, int value, size_t bytes, cudaStream_t stream) {
  expect_inside(data, bytes, Where::device_or_host, "a memset writes");
  return enqueue(stream, [=] {
    if (model::models_time()) take_time(model::copy_seconds(double(bytes)));
    fill(data, value, bytes);
    mark_written(data, bytes);
  });
}

}  // namespace
}  // namespace gradmill::paper

using namespace gradmill::paper;

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy(to, from, bytes, kind, stream);
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  return set(data, value, bytes, stream);
}
cudaError_t cudaMemset(void* data, int value, size_t bytes) { return set(data, value, bytes, nullptr); }
cudaError_t cudaMemset2DAsync(void* data, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  if (width > pitch) return refuse("rows of a memset overlap");
  for (size_t row = 0; row < height; ++row) set(static_cast<std::byte*>(data) + row * pitch, value, width, stream);
  return cudaSuccess;
}

}  // extern "C"
