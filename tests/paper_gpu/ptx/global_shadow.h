// SPDX-License-Identifier: Apache-2.0
// The last writer and the last reader of each word of global memory within a launch. Finds unordered accesses by
// different warps and blocks.
#pragma once

#include <cstdint>
#include <string>

#include "paper_gpu/ptx/clocks.h"

namespace gradmill::paper::ptx {

// An access within a launch. Launches are numbered from 1; records of other launches are ignored.
struct GlobalAccess {
  uint32_t launch;
  uint64_t block, first_block;  // indices in the grid: of the block, and of the first block in its cluster
  uint32_t warp;                // index in its block
  uint32_t actor;               // index in its cluster
  uint32_t cluster_blocks, warps_per_block;
  const Knowledge& known;
  bool atomic = false;
};

// Returns true and records the access if it is ordered after all conflicting accesses.
bool note_global_read(const GlobalAccess& access, uint64_t address, uint32_t bytes);
bool note_global_write(const GlobalAccess& access, uint64_t address, uint32_t bytes);
std::string describe_global(const GlobalAccess& access, uint64_t address, uint32_t bytes, bool write);

// The number of the next launch.
uint32_t next_launch();

}  // namespace gradmill::paper::ptx
