// SPDX-License-Identifier: Apache-2.0
// Counts the cost of an access: sectors of global memory, and cycles of shared memory's banks.
#pragma once

#include "paper_gpu/ptx/counts.h"
#include "paper_gpu/ptx/machine.h"
#include "paper_gpu/ptx/syntax.h"

namespace gradmill::paper::ptx {

void count_traffic_now(Warp& warp, Space space, const uint64_t* addresses, uint32_t mask, uint32_t bytes, bool write);

inline void count_traffic(Warp& warp, Space space, const uint64_t* addresses, uint32_t mask, uint32_t bytes,
                          bool write) {
  if (grid_of(warp).counts != nullptr) count_traffic_now(warp, space, addresses, mask, bytes, write);
}

// Adds accessed global memory to the extent that contains it.
void count_extent(Counts& counts, uint64_t address, uint64_t bytes, bool write);
// The same for global memory that a copy reads or writes.
inline void count_copied(Warp& warp, uint64_t address, uint64_t bytes, bool write) {
  if (Counts* const counts = grid_of(warp).counts) count_extent(*counts, address, bytes, write);
}

// By the name in instructions.
Space space_named(std::string_view name);
Space space_of(const Statement& statement);

}  // namespace gradmill::paper::ptx
