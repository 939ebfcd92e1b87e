// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "paper_gpu/paper_gpu.h"
#include "paper_gpu/shadow.h"

namespace gradmill::paper {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kContextBytes = 400 * kMiB;  // what a driver uses before the first allocation
constexpr size_t kPage = 4096;

size_t rounded(size_t bytes) { return (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB); }

}  // namespace

Memory& Memory::device() {
  static Memory memory(gpu().memory_mib * kMiB - kContextBytes, kSpaceBegin, kAllocated);
  return memory;
}

Memory& Memory::host() {
  static Memory memory(SIZE_MAX, kSpaceBegin + kSpaceBytes / 2, kAllocated | kWritten | kOfHost);
  return memory;
}

// The first sufficiently large gap between blocks, with a page between neighbours.
uint64_t Memory::find_place(size_t size) const {
  uint64_t place = begin_;
  for (const auto& [start, bytes] : blocks_) {
    const auto at = reinterpret_cast<uint64_t>(start);
    if (place + size + 2 * kMiB <= at) break;
    place = at + rounded(bytes) + 2 * kMiB;
  }
  return place + size <= begin_ + kSpaceBytes / 2 ? place : 0;
}

void* Memory::allocate(size_t bytes) {
  const std::lock_guard lock(mutex_);
  ++counts().allocations;
  const size_t size = rounded(bytes);
  if (refusals().allocations_left == 0 || size > limit_ - used_) return nullptr;
  --refusals().allocations_left;
  const uint64_t place = find_place(size);
  if (place == 0) return nullptr;
  void* const pages = mmap(reinterpret_cast<void*>(place), size, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  blocks_[static_cast<std::byte*>(pages)] = bytes;
  used_ += size;
  mark_allocated(pages, bytes, state_);
  return pages;
}

bool Memory::free(void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.find(static_cast<std::byte*>(pointer));
  if (block == blocks_.end()) return false;
  ++counts().allocations;
  mark_released(pointer, rounded(block->second));
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

const void* Memory::block_of(const void* data) const {
  const std::lock_guard lock(mutex_);
  const auto* const address = static_cast<const std::byte*>(data);
  const auto above = blocks_.upper_bound(address);
  if (above == blocks_.begin()) return nullptr;
  const auto& [start, size] = *std::prev(above);
  return static_cast<size_t>(address - start) < size ? start : nullptr;
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
