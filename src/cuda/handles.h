// SPDX-License-Identifier: Apache-2.0
// Owners of streams, events and memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

#include "cuda/check.h"

namespace gradmill::cuda {

struct StreamDeleter {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, StreamDeleter>;
Stream make_stream();

struct EventDeleter {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventDeleter>;
Event make_event(bool timing = false);

// Device memory. Throws Error (out_of_memory) with the requested and the free size.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(size_t bytes);
  std::span<std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* pointer) const { cudaFree(pointer); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  size_t size_ = 0;
};

// Page-locked host memory: copies to and from it do not block the host, and kernels can access it.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  explicit PinnedMemory(size_t bytes);
  std::span<std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* pointer) const { cudaFreeHost(pointer); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  size_t size_ = 0;
};

}  // namespace gradmill::cuda
