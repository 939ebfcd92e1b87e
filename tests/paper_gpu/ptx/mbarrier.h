// SPDX-License-Identifier: Apache-2.0
// What copies do at barriers in shared memory.
#pragma once

#include "paper_gpu/ptx/machine.h"

namespace gradmill::paper::ptx {

// A finding where there is none, or where its initialisation is not known to the warp.
MemoryBarrier& barrier_at(Warp& warp, uint32_t address, int lane);
// Begins the next phase if all have arrived and all bytes have come.
void complete_phase(MemoryBarrier& barrier);
void bytes_arrived(MemoryBarrier& barrier, uint32_t bytes);

}  // namespace gradmill::paper::ptx
