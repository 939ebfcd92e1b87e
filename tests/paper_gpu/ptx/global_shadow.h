// SPDX-License-Identifier: Apache-2.0
// The last writer and the last reader of each word of global memory within a launch: finds accesses of different warps
// and blocks that nothing orders.
#pragma once

#include <cstdint>
#include <string>

#include "paper_gpu/ptx/clocks.h"

namespace gradmill::paper::ptx {

// An access within a launch. Launches are numbered from 1; what was noted in others counts for nothing.
struct GlobalAccess {
  uint32_t launch;
  uint64_t block, first_block;  // numbers in the grid: its own and that of the first in its cluster
  uint32_t warp;                // in its block
  uint32_t actor;               // in its cluster
  uint32_t cluster_blocks, warps_per_block;
  const Knowledge& known;
  bool atomic = false;
};

// Empty if the access is ordered after all that it conflicts with; it is then noted.
bool note_global_read(const GlobalAccess& access, uint64_t address, uint32_t bytes);
bool note_global_write(const GlobalAccess& access, uint64_t address, uint32_t bytes);
std::string describe_global(const GlobalAccess& access, uint64_t address, uint32_t bytes, bool write);

// The number of the next launch.
uint32_t next_launch();

}  // namespace gradmill::paper::ptx
