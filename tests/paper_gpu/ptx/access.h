// SPDX-License-Identifier: Apache-2.0
// Checked accesses of memory: where the bytes lie, or a finding.
#pragma once

#include "paper_gpu/ptx/machine.h"

namespace gradmill::paper::ptx {

// The block a shared address belongs to; `address` becomes the offset in it.
Block& block_at(Warp& warp, uint32_t& address, int lane);

// A finding unless something tells the warp that another block of its cluster has started.
void expect_started(Warp& warp, const Block& block, int lane);

// Shared memory.
uint8_t* shared_to_read(Warp& warp, uint32_t address, uint32_t bytes, int lane);
// `value`: what will be written, if several lanes may rightly write the same to one place in one instruction.
uint8_t* shared_to_write(Warp& warp, uint32_t address, uint32_t bytes, int lane, const void* value = nullptr);
uint8_t* shared_for_atomic(Warp& warp, uint32_t address, uint32_t bytes, int lane);
// Bytes of lanes that follow each other, each with `lane_bytes`, from `lane` on. Null where a look at each lane is
// needed to tell what is wrong, if anything is.
uint8_t* shared_run(Warp& warp, uint32_t address, uint32_t bytes, int lane, uint32_t lane_bytes, bool write);
uint8_t* global_run(Warp& warp, uint64_t address, uint32_t bytes, int lane, bool write);

// Only the bounds.
uint8_t* shared_at(Warp& warp, uint32_t address, uint32_t bytes, int lane);

// Global memory, tables of the module, and page-locked memory.
uint8_t* global_to_read(Warp& warp, uint64_t address, uint32_t bytes, int lane);
uint8_t* global_to_write(Warp& warp, uint64_t address, uint32_t bytes, int lane);
// For a copy: what nothing has written may be copied, but not used.
uint8_t* global_to_copy(Warp& warp, uint64_t address, uint32_t bytes, int lane);
uint8_t* global_for_atomic(Warp& warp, uint64_t address, uint32_t bytes, int lane);

// A finding unless what threads wrote there was shown to the copy engine and to products.
void expect_fenced(Warp& warp, Block& block, uint32_t address, uint32_t bytes, int lane, const char* reader);

// The same for what the copy engine is to write: threads' last accesses there must be ordered with its own.
void expect_reads_fenced(Warp& warp, Block& block, uint32_t address, uint32_t bytes, int lane);
// A finding if a copy that has not been waited for may still read these bytes.
void expect_not_being_read(Warp& warp, Block& block, uint32_t address, uint32_t bytes, int lane);

// The same for bytes of global memory that such a copy may still write.
void expect_not_being_stored(Warp& warp, uint64_t address, uint32_t bytes, int lane);

inline SharedShadow::Access access_of(Warp& warp, int lane, uint32_t lane_bytes = 0) {
  const auto number = static_cast<uint32_t>(lane);
  return {warp.actor, number, warp.known_to(number), warp.lanes_met, lane_bytes};
}

}  // namespace gradmill::paper::ptx
