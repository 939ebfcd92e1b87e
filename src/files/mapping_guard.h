// SPDX-License-Identifier: Apache-2.0
// MappingGuard: keeps a process alive when bytes of a mapped file can no longer be read, because the file became
// shorter or its disk fails. The system answers such a read with SIGBUS, whose default is to end the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

namespace gradmill {

// While it lives, a read of its bytes that fails gives zeros, as do all reads after that place, and is_lost() is true
// from then on. So whoever reads must ask afterwards, before the values are used. The first guard installs a handler
// for SIGBUS; signals from other addresses go to the handler that was there before.
class MappingGuard {
 public:
  MappingGuard() = default;
  explicit MappingGuard(std::span<const std::byte> mapping);
  MappingGuard(MappingGuard&& other) noexcept;
  MappingGuard& operator=(MappingGuard&& other) noexcept;
  ~MappingGuard();

  bool is_lost() const {
    if (range_ == nullptr) return false;
    std::atomic_thread_fence(std::memory_order_acquire);  // the reads that came before it have happened
    return range_->lost.load(std::memory_order_relaxed);
  }

  // A list of these is all that the signal handler looks at. They are never freed, but used again.
  struct Range {
    std::atomic<std::byte*> begin{nullptr}, end{nullptr};  // begin is null: not in use
    std::atomic<bool> lost{false};
    Range* next = nullptr;
  };

 private:
  Range* range_ = nullptr;
};

}  // namespace gradmill
