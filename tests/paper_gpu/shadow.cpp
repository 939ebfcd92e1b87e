// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/shadow.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "paper_gpu/paper_gpu.h"

namespace gradmill::paper {
namespace {

// Pages of large ranges are returned to the system instead of being written.
void set_states(uint64_t address, size_t bytes, uint8_t state) {
  if (!computes()) return;
  constexpr uint64_t kPage = 4096;
  uint8_t* const begin = state_of(address);
  const auto first = reinterpret_cast<uint64_t>(begin);
  const uint64_t from = (first + kPage - 1) / kPage * kPage, to = (first + bytes) / kPage * kPage;
  if (state != 0 || to <= from) {
    std::memset(begin, state, bytes);
    return;
  }
  std::memset(begin, 0, from - first);
  madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
  std::memset(reinterpret_cast<void*>(to), 0, first + bytes - to);
}

// Where the tensor around or before the address ends, for messages.
std::string beside(uint64_t address) {
  constexpr uint64_t kFar = 4096;
  for (uint64_t back = 1; back <= kFar && address - back >= kSpaceBegin; ++back) {
    if (*state_of(address - back) & kAllocated) {
      return back == 1 ? ", just after the end of a tensor"
                       : fmt::format(", {} bytes after the end of a tensor", back - 1);
    }
  }
  return {};
}

// The position of the address within its tensor, for messages.
std::string within(uint64_t address) {
  uint64_t begin = address, end = address;
  while (begin > kSpaceBegin && (*state_of(begin - 1) & kAllocated)) --begin;
  while (end < kSpaceEnd && (*state_of(end) & kAllocated)) ++end;
  return fmt::format("byte {} of the {} of a tensor", address - begin, end - begin);
}

// Whether the host has written a word of page-locked memory since. Half a word is not enough, because half of a number
// may look like the pattern.
bool written_by_host(uint64_t address) {
  constexpr uint64_t kWord = 4;
  const uint64_t word = address & ~(kWord - 1);
  for (uint64_t at = word; at < word + kWord; ++at) {
    if (*reinterpret_cast<const uint8_t*>(at) != poison_byte(at)) return true;
  }
  return false;
}

bool all_have(const uint8_t* state, size_t bytes, uint8_t wanted) {
  uint8_t lacking = 0;
  for (size_t i = 0; i < bytes; ++i) lacking |= static_cast<uint8_t>(~state[i] & wanted);
  return lacking == 0;
}

std::string find_bad(uint64_t address, size_t bytes, bool read) {
  if (!in_space(address, bytes)) return fmt::format("{} bytes at {:#x} are not memory of the GPU", bytes, address);
  if (!computes()) return {};
  uint8_t* const state = state_of(address);
  const uint8_t wanted = read ? kAllocated | kWritten : kAllocated;
  if (all_have(state, bytes, wanted)) return {};
  for (size_t i = 0; i < bytes; ++i) {
    if ((state[i] & wanted) == wanted) continue;
    if (!(state[i] & kAllocated)) {
      return fmt::format("{} bytes at {:#x} are not in memory that was allocated{}", bytes, address,
                         beside(address + i));
    }
    if ((state[i] & kOfHost) && written_by_host(address + i)) {
      state[i] |= kWritten;
      continue;
    }
    return fmt::format("{} bytes at {:#x} are read, but nothing has written {}", bytes, address, within(address + i));
  }
  return {};
}

}  // namespace

uint8_t* states() {
  static uint8_t* const all = [] {
    void* const pages =
        mmap(nullptr, kSpaceBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) {
      std::fprintf(stderr, "paper GPU: no address space is left for what is known of its memory (see ulimit -v)\n");
      std::_Exit(2);
    }
    return static_cast<uint8_t*>(pages);
  }();
  return all;
}

// 0xff alternating with 0x81 to 0xfe: a NaN in fp32, bf16, fp16 and fp64, and not a number that programs commonly use.
uint8_t poison_byte(uint64_t address) {
  if (address % 2 == 1) return 0xff;
  const uint64_t hash = (address >> 1) * 0x9e3779b97f4a7c15u >> 57;  // 0 to 127
  return static_cast<uint8_t>(0x81 + std::min<uint64_t>(hash, 0x7d));
}

void mark_allocated(const void* data, size_t bytes, uint8_t state) {
  set_states(reinterpret_cast<uint64_t>(data), bytes, state);
}

void mark_released(const void* data, size_t bytes) { set_states(reinterpret_cast<uint64_t>(data), bytes, 0); }

void mark_written(const void* data, size_t bytes) {
  if (!computes()) return;
  uint8_t* const state = state_of(reinterpret_cast<uint64_t>(data));
  for (size_t i = 0; i < bytes; ++i) state[i] |= kWritten;
}

std::string why_not_read(uint64_t address, size_t bytes) { return find_bad(address, bytes, true); }
std::string why_not_written(uint64_t address, size_t bytes) { return find_bad(address, bytes, false); }

void expect_readable(const void* data, size_t bytes, const std::string& what) {
  const std::string reason = why_not_read(reinterpret_cast<uint64_t>(data), bytes);
  if (!reason.empty()) fault(what + ": " + reason);
}

void expect_writable(const void* data, size_t bytes, const std::string& what) {
  const std::string reason = why_not_written(reinterpret_cast<uint64_t>(data), bytes);
  if (!reason.empty()) fault(what + ": " + reason);
}

}  // namespace gradmill::paper
