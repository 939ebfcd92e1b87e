// SPDX-License-Identifier: Apache-2.0
// Small kernels as PTX, and memory for them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "paper_gpu/memory.h"
#include "paper_gpu/ptx/module.h"
#include "paper_gpu/ptx/run.h"
#include "paper_gpu/shadow.h"

namespace gradmill::paper::ptx::test {

// An array in the paper GPU's memory with exactly this many elements.
template <class T>
class Buffer {
 public:
  // Initialised with zeros.
  explicit Buffer(size_t size, bool is_written = true) : size_(size) {
    data_ = static_cast<T*>(Memory::device().allocate(size * sizeof(T)));
    if (data_ == nullptr) throw std::bad_alloc();
    std::memset(static_cast<void*>(data_), 0, size * sizeof(T));
    mark_allocated(data_, size * sizeof(T), uint8_t(is_written ? kAllocated | kWritten : kAllocated));
  }
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) {
    std::memcpy(static_cast<void*>(data_), values.data(), values.size() * sizeof(T));
  }
  ~Buffer() {
    mark_released(data_, size_ * sizeof(T));
    Memory::device().free(data_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  size_t size() const { return size_; }
  operator uint64_t() const { return reinterpret_cast<uint64_t>(data_); }

 private:
  T* data_;
  size_t size_;
};

// One kernel, called test, with 64-bit parameters. Parameters that are addresses are in %rd1, %rd2, ... as global
// addresses, and in %rd101, ... unchanged. %r1 is %tid.x, %r2 %ctaid.x. Other registers are free: %p1 to 63, %rs1 to
// 63, %r3 to 255, %rd10 to 99, %f1 to 255, %fd1 to 63.
struct Source {
  std::string body;
  int params = 1;
  std::string globals = {};     // before the kernel
  std::string attributes = {};  // after its parameters
};
std::string text_of(const Source& source);

// Returns the kernel's error, or why it cannot run; empty if all is well. Writes the text to $GRADMILL_PTX_DUMP, if
// that is a folder.
std::string run_text(const std::string& text, const Launch& launch, std::span<const std::byte> params,
                     const RunOptions& options = {});
std::string run_source(const Source& source, const Launch& launch, const std::vector<uint64_t>& params,
                       const RunOptions& options = {});

// Calls `reset` before each run, one in every order, and `check` after it.
void expect_in_every_order(const Source& source, const Launch& launch, const std::vector<uint64_t>& params,
                           const std::function<void()>& reset, const std::function<void()>& check);
inline void expect_runs(const Source& source, const Launch& launch, const std::vector<uint64_t>& params) {
  EXPECT_EQ(run_source(source, launch, params), "") << source.body;
}
// Expects that the run ends with a finding that contains one of each line's words, which are separated by |.
void expect_finding(const Source& source, const Launch& launch, const std::vector<uint64_t>& params,
                    const std::vector<std::string>& words);

// The number of failures in this test so far.
int num_failures();

inline Launch blocks_of(uint32_t threads, uint32_t blocks = 1, uint32_t dynamic_shared = 0, uint32_t cluster = 1) {
  return {{blocks, 1, 1}, {threads, 1, 1}, dynamic_shared, cluster};
}

// Replaces $name in the text by the value.
std::string with(std::string text, const std::vector<std::pair<std::string, std::string>>& values);
// "%r5, %r6, %r7" for ("%r", 5, 3).
std::string registers(const std::string& prefix, int first, int count);

// A loop until the barrier's phase with this parity has ended.
std::string wait_for(const std::string& barrier, const std::string& parity);

uint64_t random_bits();  // the same sequence in every test that calls restart_random first
void restart_random();

}  // namespace gradmill::paper::ptx::test
