// SPDX-License-Identifier: Apache-2.0
// Checked memory accesses: the location of the bytes, or a finding.
#pragma once

#include "paper_gpu/ptx/machine.h"

namespace gradmill::paper::ptx {

// The block that a shared address belongs to; `address` becomes the offset in it.
Block& block_at(Warp& warp, uint32_t& address, int lane);

// A finding unless the warp knows that the other block of its cluster has started.
void expect_started(Warp& warp, const Block& block, int lane);

// Shared memory.
uint8_t* shared_to_read(Warp& warp, uint32_t address, uint32_t bytes, int lane);
// `value`: the value to be written, if several lanes may write the same value to one location in one instruction.
uint8_t* shared_to_write(Warp& warp, uint32_t address, uint32_t bytes, int lane, const void* value = nullptr);
uint8_t* shared_for_atomic(Warp& warp, uint32_t address, uint32_t bytes, int lane);
// Contiguous bytes of consecutive lanes, `lane_bytes` each, starting with `lane`. Null if each lane must be checked
// separately.
uint8_t* shared_run(Warp& warp, uint32_t address, uint32_t bytes, int lane, uint32_t lane_bytes, bool write);
uint8_t* global_run(Warp& warp, uint64_t address, uint32_t bytes, int lane, bool write);

// Checks only the bounds.
uint8_t* shared_at(Warp& warp, uint32_t address, uint32_t bytes, int lane);

// Global memory, tables of the module, and page-locked memory.
uint8_t* global_to_read(Warp& warp, uint64_t address, uint32_t bytes, int lane);
uint8_t* global_to_write(Warp& warp, uint64_t address, uint32_t bytes, int lane);
// For a copy: unwritten bytes may be copied, but not used.
uint8_t* global_to_copy(Warp& warp, uint64_t address, uint32_t bytes, int lane);
uint8_t* global_for_atomic(Warp& warp, uint64_t address, uint32_t bytes, int lane);

// A finding unless the threads' writes were made visible to the copy engine and to products.
void expect_fenced(Warp& warp, Block& block, uint32_t address, uint32_t bytes, int lane, const char* reader);

// The same for memory that the copy engine will write: the threads' last accesses must be ordered before it.
void expect_reads_fenced(Warp& warp, Block& block, uint32_t address, uint32_t bytes, int lane);
// A finding if a pending copy may still read these bytes.
void expect_not_being_read(Warp& warp, Block& block, uint32_t address, uint32_t bytes, int lane);

// The same for bytes of global memory that a pending copy may still write.
void expect_not_being_stored(Warp& warp, uint64_t address, uint32_t bytes, int lane);

inline SharedShadow::Access access_of(Warp& warp, int lane, uint32_t lane_bytes = 0) {
  const auto number = static_cast<uint32_t>(lane);
  return {warp.actor, number, warp.known_to(number), warp.lanes_met, lane_bytes};
}

}  // namespace gradmill::paper::ptx
