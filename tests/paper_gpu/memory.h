// SPDX-License-Identifier: Apache-2.0
// The paper GPU's memory: addresses that use no real memory until they are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace gradmill::paper {

class Memory {
 public:
  static Memory& device();
  static Memory& host();  // page-locked

  // Null if the limit does not allow it.
  void* allocate(size_t bytes);
  // False if the pointer was never allocated.
  bool free(void* pointer);
  bool contains(const void* data, size_t bytes) const;
  // The allocation that contains an address, or null.
  const void* block_of(const void* data) const;
  bool holds(const void* data) const { return contains(data, 1); }
  size_t used() const { return used_; }
  size_t limit() const { return limit_; }

 private:
  Memory(size_t limit, uint64_t begin, uint8_t state) : limit_(limit), begin_(begin), state_(state) {}
  uint64_t find_place(size_t size) const;

  const size_t limit_;
  const uint64_t begin_;  // start of its part of the address space
  const uint8_t state_;   // state of new bytes: see shadow.h
  size_t used_ = 0;
  std::map<const std::byte*, size_t> blocks_;
  mutable std::mutex mutex_;
};

// Like cudaMemset, but pages of zeros are returned to the system.
void fill(void* data, int value, size_t bytes);

}  // namespace gradmill::paper
