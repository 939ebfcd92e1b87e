// SPDX-License-Identifier: Apache-2.0
// MemoryGauge and HeldBytes: the memory that a pipeline holds, now and at its peak.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

namespace gradmill {

class MemoryGauge {
 public:
  void add(int64_t bytes) {
    const int64_t now = held_.fetch_add(bytes) + bytes;
    int64_t peak = peak_.load();
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
  }
  int64_t held() const { return held_.load(); }
  int64_t peak() const { return peak_.load(); }

 private:
  std::atomic<int64_t> held_ = 0, peak_ = 0;
};

// Counts bytes as held during its lifetime. The gauge must outlive it.
class HeldBytes {
 public:
  HeldBytes() = default;
  HeldBytes(MemoryGauge& gauge, int64_t bytes) : gauge_(&gauge), bytes_(bytes) { gauge.add(bytes); }
  HeldBytes(HeldBytes&& other) noexcept : gauge_(std::exchange(other.gauge_, nullptr)), bytes_(other.bytes_) {}
  HeldBytes& operator=(HeldBytes&& other) noexcept {
    std::swap(gauge_, other.gauge_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HeldBytes() {
    if (gauge_ != nullptr) gauge_->add(-bytes_);
  }

 private:
  MemoryGauge* gauge_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace gradmill
