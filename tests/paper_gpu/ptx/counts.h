// SPDX-License-Identifier: Apache-2.0
// Counts what a kernel did, from which its speed on hardware is modelled.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "paper_gpu/ptx/units.h"

namespace gradmill::paper::ptx {

// Instructions issued by warps. Loops that wait for a barrier or a copy count as if it were ready at once, because the
// number of polls depends on timing.
struct Issued {
  uint64_t warp_instructions = 0, lane_instructions = 0;
  std::array<uint64_t, kNumUnits> by_unit{};  // issued by warps

  Issued& operator+=(const Issued& other) {
    warp_instructions += other.warp_instructions;
    lane_instructions += other.lane_instructions;
    for (size_t unit = 0; unit < kNumUnits; ++unit) by_unit[unit] += other.by_unit[unit];
    return *this;
  }
};

// The memory accessed between one pointer passed to the kernel and the next higher one.
struct Extent {
  uint64_t base = 0;
  uint64_t bytes_read = 0, bytes_written = 0;     // whole sectors, for each access
  uint64_t read_low = UINT64_MAX, read_high = 0;  // the range that was read
  uint64_t written_low = UINT64_MAX, written_high = 0;
};

struct Counts {
  uint64_t blocks = 0;  // blocks that ran
  Issued issued;
  uint64_t global_accesses = 0;  // by warps
  uint64_t global_bytes_read = 0, global_bytes_written = 0;
  uint64_t global_sectors = 0;   // of 32 bytes
  uint64_t shared_accesses = 0;  // by warps
  uint64_t shared_cycles = 0;    // including bank conflicts: cycles for the 128-byte parts of each access
  uint64_t shared_least = 0;     // the same without conflicts
  uint64_t shared_bytes = 0;
  uint64_t copied_bytes = 0;  // by the copy engine and asynchronous copies
  uint64_t atomics = 0;
  uint64_t matrix_flops = 0;       // of the matrix units
  uint64_t special_functions = 0;  // exponentials, roots and similar, by lane
  std::vector<Extent> extents;     // by base address; the caller sets the bases, and the rest is filled in
};

}  // namespace gradmill::paper::ptx
