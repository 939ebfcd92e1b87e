// SPDX-License-Identifier: Apache-2.0
#include "cpu/cpu_runtime.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <limits>

namespace gradmill::cpu {

std::span<std::byte> CpuRuntime::allocate(size_t bytes) {
  slab_ = Storage(bytes);
  return slab_.bytes();
}

std::shared_ptr<std::byte> CpuRuntime::allocate_shared(size_t bytes) {
  const auto block = std::make_shared<Storage>(bytes);
  return {block, block->bytes().data()};
}

void CpuRuntime::upload(void* to, std::span<const std::byte> from) { std::memcpy(to, from.data(), from.size()); }

Runtime::Read CpuRuntime::read_later(const void* from, size_t bytes) {
  assert(bytes <= kReadBytes);
  Slot& slot = reads_[next_read_ % kReadsInFlight];
  std::memcpy(slot.bytes.data(), from, bytes);
  slot.size = bytes;
  return next_read_++;
}

std::span<const std::byte> CpuRuntime::wait(Read read) {
  const Slot& slot = reads_[read % kReadsInFlight];
  return std::span(slot.bytes).first(slot.size);
}

double CpuRuntime::measure_copy_bandwidth() {
  constexpr int64_t kBytes = int64_t{256} << 20, kChunk = int64_t{1} << 20;
  constexpr int kCopies = 5;
  const Storage from(kBytes), to(kBytes);
  double fastest = std::numeric_limits<double>::infinity();
  // The first copy faults in pages. Of the others, the fastest was disturbed least.
  for (int copy = 0; copy <= kCopies; ++copy) {
    const auto start = std::chrono::steady_clock::now();
    parallel_for(pool_, kBytes, kChunk, [&](int64_t begin, int64_t end) {
      std::memcpy(to.bytes().data() + begin, from.bytes().data() + begin, static_cast<size_t>(end - begin));
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (copy > 0) fastest = std::min(fastest, seconds);
  }
  return 2 * double(kBytes) / fastest;
}

}  // namespace gradmill::cpu
