// SPDX-License-Identifier: Apache-2.0
// Storage: owns one block of memory. It moves, and never copies.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace gradmill {

// Alignment of every block and of every tensor in it: a GPU's widest access, and four cache lines on a CPU.
inline constexpr size_t kAlignment = 256;

inline size_t align_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class Storage {
 public:
  Storage() = default;
  // Zeroed host memory. Throws Error (out_of_memory) naming the size.
  explicit Storage(size_t bytes);

  std::span<std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* pointer) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  size_t size_ = 0;
};

}  // namespace gradmill
