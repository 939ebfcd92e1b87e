// SPDX-License-Identifier: Apache-2.0
// One head of one sequence of a tensor, in fp32 on the host. The operations of a graph work on slices.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace gradmill::paper::dnn {

struct Buffer {
  std::unique_ptr<float[]> values;
  size_t size = 0;
};

// Reusable buffers. Those used last are still in the CPU's cache.
class BufferPool {
 public:
  Buffer take(size_t size) {
    for (size_t i = free_.size(); i-- > 0;) {
      if (free_[i].size < size) continue;
      Buffer taken = std::move(free_[i]);
      free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
      return taken;
    }
    return {std::make_unique_for_overwrite<float[]>(size), size};
  }
  void give_back(Buffer buffer) {
    if (buffer.size > 0) free_.push_back(std::move(buffer));
  }

 private:
  std::vector<Buffer> free_;
};

// Stored row by row without gaps. A sequence shorter than the tensor has fewer rows or columns than its descriptor.
struct Slice {
  int64_t rows = 0, cols = 0;
  Buffer buffer;

  float* row(int64_t r) { return buffer.values.get() + r * cols; }
  const float* row(int64_t r) const { return buffer.values.get() + r * cols; }
};

}  // namespace gradmill::paper::dnn
