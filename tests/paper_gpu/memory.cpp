// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "paper_gpu/paper_gpu.h"

namespace gradmill::paper {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kContextBytes = 400 * kMiB;  // what a driver takes before anybody asks
constexpr size_t kPage = 4096;

size_t rounded(size_t bytes) { return (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB); }

}  // namespace

Memory& Memory::device() {
  static Memory memory(gpu().memory_mib * kMiB - kContextBytes);
  return memory;
}

Memory& Memory::host() {
  static Memory memory(SIZE_MAX);
  return memory;
}

void* Memory::allocate(size_t bytes) {
  const std::lock_guard lock(mutex_);
  ++counts().allocations;
  const size_t size = rounded(bytes);
  if (refusals().allocations_left == 0 || size > limit_ - used_) return nullptr;
  --refusals().allocations_left;
  void* const pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  blocks_[static_cast<std::byte*>(pages)] = bytes;
  used_ += size;
  return pages;
}

bool Memory::free(void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.find(static_cast<std::byte*>(pointer));
  if (block == blocks_.end()) return false;
  ++counts().allocations;
  munmap(pointer, rounded(block->second));
  used_ -= rounded(block->second);
  blocks_.erase(block);
  return true;
}

bool Memory::contains(const void* data, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto* const begin = static_cast<const std::byte*>(data);
  const auto above = blocks_.upper_bound(begin);
  if (above == blocks_.begin()) return false;
  const auto& [start, size] = *std::prev(above);
  const auto offset = static_cast<size_t>(begin - start);
  return offset <= size && bytes <= size - offset;
}

void fill(void* data, int value, size_t bytes) {
  auto* const begin = static_cast<std::byte*>(data);
  const size_t head = (kPage - reinterpret_cast<uintptr_t>(begin) % kPage) % kPage;
  if (value != 0 || bytes < head + kPage) {
    std::memset(begin, value, bytes);
    return;
  }
  const size_t pages = (bytes - head) / kPage * kPage;
  std::memset(begin, 0, head);
  madvise(begin + head, pages, MADV_DONTNEED);
  std::memset(begin + head + pages, 0, bytes - head - pages);
}

void expect_inside(const void* data, size_t bytes, Where where, const std::string& what) {
  if (Memory::device().contains(data, bytes)) return;
  if (where == Where::device_or_host && Memory::host().contains(data, bytes)) return;
  fault(fmt::format("{}: {} bytes at {} are not in memory that was allocated", what, bytes, data));
}

}  // namespace gradmill::paper
