// SPDX-License-Identifier: Apache-2.0
// What a kernel did, counted: what speed on hardware follows from.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "paper_gpu/ptx/units.h"

namespace gradmill::paper::ptx {

// Instructions that warps issued. Loops that wait for a barrier or a copy count as if what they wait for were there at
// once: how often they would ask depends on time.
struct Issued {
  uint64_t warp_instructions = 0, lane_instructions = 0;
  std::array<uint64_t, kNumUnits> by_unit{};  // of warps

  Issued& operator+=(const Issued& other) {
    warp_instructions += other.warp_instructions;
    lane_instructions += other.lane_instructions;
    for (size_t unit = 0; unit < kNumUnits; ++unit) by_unit[unit] += other.by_unit[unit];
    return *this;
  }
};

// The part of memory that was accessed between one pointer that the kernel was given and the next higher one.
struct Extent {
  uint64_t base = 0;
  uint64_t bytes_read = 0, bytes_written = 0;     // whole sectors, each time that one is asked for
  uint64_t read_low = UINT64_MAX, read_high = 0;  // what was read lies between
  uint64_t written_low = UINT64_MAX, written_high = 0;
};

struct Counts {
  uint64_t blocks = 0;  // that ran
  Issued issued;
  uint64_t global_accesses = 0;  // by warps
  uint64_t global_bytes_read = 0, global_bytes_written = 0;
  uint64_t global_sectors = 0;   // of 32 bytes
  uint64_t shared_accesses = 0;  // by warps
  uint64_t shared_cycles = 0;    // with bank conflicts: an access takes as many as its 128-byte parts without
  uint64_t shared_least = 0;     // what they would be without conflicts
  uint64_t shared_bytes = 0;
  uint64_t copied_bytes = 0;  // by the copy engine and asynchronous copies
  uint64_t atomics = 0;
  uint64_t matrix_flops = 0;       // of the matrix units
  uint64_t special_functions = 0;  // exponentials, roots and the like, by lane
  std::vector<Extent> extents;     // by their bases; what the caller has put here is filled
};

}  // namespace gradmill::paper::ptx
