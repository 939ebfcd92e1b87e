// SPDX-License-Identifier: Apache-2.0
// Functions for barriers in shared memory that copies use.
#pragma once

#include "paper_gpu/ptx/machine.h"

namespace gradmill::paper::ptx {

// Reports a finding if there is no barrier, or if the warp does not know of its initialisation.
MemoryBarrier& barrier_at(Warp& warp, uint32_t address, int lane);
// Begins the next phase if all have arrived and all bytes have been delivered.
void complete_phase(MemoryBarrier& barrier);
void bytes_arrived(MemoryBarrier& barrier, uint32_t bytes);

}  // namespace gradmill::paper::ptx
