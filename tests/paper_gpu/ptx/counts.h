// SPDX-License-Identifier: Apache-2.0
// What a kernel did, counted: what speed on hardware follows from.
#pragma once

#include <cstdint>

namespace gradmill::paper::ptx {

struct Counts {
  uint64_t blocks = 0;
  uint64_t warp_instructions = 0, lane_instructions = 0;
  uint64_t global_accesses = 0;  // by warps
  uint64_t global_bytes_read = 0, global_bytes_written = 0;
  uint64_t global_sectors = 0;   // of 32 bytes
  uint64_t shared_accesses = 0;  // by warps
  uint64_t shared_cycles = 0;    // with bank conflicts: one for each access without
  uint64_t shared_bytes = 0;
  uint64_t copied_bytes = 0;  // by the copy engine and asynchronous copies
  uint64_t atomics = 0;
  uint64_t matrix_flops = 0;       // of the matrix units
  uint64_t special_functions = 0;  // exponentials, roots and the like, by lane
};

}  // namespace gradmill::paper::ptx
