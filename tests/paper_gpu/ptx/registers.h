// SPDX-License-Identifier: Apache-2.0
// Assigns locations to a kernel's registers. PTX has a new register for every value. Those that are never live at the
// same time share a location, so that a warp's registers stay in the cache.
#pragma once

#include <cstdint>
#include <vector>

#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/kernel.h"

namespace gradmill::paper::ptx {

class Registers {
 public:
  uint32_t add(bool wide);
  bool is_wide(uint32_t reg) const { return wide_[reg]; }
  void add_special(Special special, uint32_t reg) { specials_.push_back({special, reg}); }
  void note(const Access& access) { accesses_.push_back(access); }
  // Whether the instruction may leave its output unchanged.
  void note_guard(uint32_t instruction, bool guarded);

  // Writes the locations into the kernel's instructions.
  void assign(Kernel& kernel);

 private:
  struct Interval {
    uint32_t begin = UINT32_MAX, end = 0;
    bool seen() const { return begin != UINT32_MAX; }
    void extend(uint32_t at) {
      begin = std::min(begin, at);
      end = std::max(end, at);
    }
  };

  std::vector<Interval> intervals(const Kernel& kernel);
  void place(Kernel& kernel, std::vector<Interval>& live);

  std::vector<bool> wide_, guarded_;
  std::vector<Access> accesses_;
  std::vector<std::pair<Special, uint32_t>> specials_;
  std::vector<uint32_t> places_;
  std::vector<bool> alive_at_start_;
};

}  // namespace gradmill::paper::ptx
