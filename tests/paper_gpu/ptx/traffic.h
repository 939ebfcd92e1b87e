// SPDX-License-Identifier: Apache-2.0
// Counts what an access costs: sectors of global memory, and how often shared memory's banks must be asked.
#pragma once

#include "paper_gpu/ptx/machine.h"
#include "paper_gpu/ptx/syntax.h"

namespace gradmill::paper::ptx {

void count_traffic_now(Warp& warp, Space space, const uint64_t* addresses, uint32_t mask, uint32_t bytes, bool write);

inline void count_traffic(Warp& warp, Space space, const uint64_t* addresses, uint32_t mask, uint32_t bytes,
                          bool write) {
  if (grid_of(warp).counts != nullptr) count_traffic_now(warp, space, addresses, mask, bytes, write);
}

// By names in instructions.
Space space_named(std::string_view name);
Space space_of(const Statement& statement);

}  // namespace gradmill::paper::ptx
