// SPDX-License-Identifier: Apache-2.0
// Hopper's copy engine (compute capability 9.0 and above): one thread copies tiles between global and shared memory,
// and barriers signal their arrival. A tile has 64 columns of 16 bits, in the layout that the products of
// cuda/wgmma.cuh read.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gradmill::cuda {

inline constexpr int kTileRowBytes = 128;

// --- barriers, given by their addresses in shared memory ---

__device__ inline void barrier_init(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes initialised barriers visible to the copy engine.
__device__ inline void barrier_init_done() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives at the barrier at this address in block `rank` of the cluster.
__device__ inline void barrier_arrive_at(uint32_t barrier, int rank) {
  asm volatile(
      "{.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
// Arrives at this barrier in all blocks of the cluster. Called by a whole warp.
template <int kBlocks>
__device__ inline void barrier_arrive_everywhere(uint32_t barrier) {
  const int lane = int(threadIdx.x) % 32;
  if (lane < kBlocks) barrier_arrive_at(barrier, lane);
}
// Arrives, and announces how many bytes copies will deliver in this phase.
__device__ inline void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Waits until the phase with this parity has ended.
__device__ inline void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// A position in a ring of stages, each with its own barriers, and the parity of their phase.
template <int kStages>
struct RingPlace {
  int stage = 0;
  uint32_t parity = 0;

  __device__ static RingPlace at(int count) { return {count % kStages, uint32_t(count / kStages) % 2}; }
  __device__ void advance() {
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

// --- asynchronous copies; one thread starts each ---

// True for exactly one lane of a fully active warp, always the same one. Because the compiler knows that only one lane
// is active, it does not check which lanes agree on their operands.
__device__ inline bool elect_one() {
  uint32_t elected;
  asm volatile(
      "{.reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;}"
      : "=r"(elected));
  return elected != 0;
}

// Copies the tile at (column, row) of a tensor to shared memory.
__device__ inline void copy_tile(uint32_t to, const CUtensorMap& map, int column, int row, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}
// Copies the tile to the same address in every block of the cluster with a bit in `blocks`, and signals the barrier of
// each.
__device__ inline void copy_tile_to(uint16_t blocks, uint32_t to, const CUtensorMap& map, int column, int row,
                                    uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier), "h"(blocks)
      : "memory");
}
// Copies contiguous bytes, a multiple of 16.
__device__ inline void copy_bytes(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
// Prefetches the tile into the L2 cache.
__device__ inline void prefetch_tile(const CUtensorMap& map, int column, int row) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(&map), "r"(column), "r"(row)
               : "memory");
}
// Copies shared memory to the tile at (column, row) of a tensor. Writes by threads must be fenced (show_to_products)
// before.
__device__ inline void store_tile(const CUtensorMap& map, int column, int row, uint32_t from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(column),
               "r"(row), "r"(from)
               : "memory");
}
// The same for data that is not read again soon: it is evicted from the L2 cache first.
__device__ inline void store_tile_streaming(const CUtensorMap& map, int column, int row, uint32_t from) {
  uint64_t first_to_leave;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first_to_leave));
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%1, %2}], [%3], %4;" ::"l"(&map),
      "r"(column), "r"(row), "r"(from), "l"(first_to_leave)
      : "memory");
}
// Closes a group of this thread's stores. The function below waits until all groups except the last kLeft have been
// read from shared memory.
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int kLeft>
__device__ inline void wait_for_store_groups() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLeft) : "memory");
}

// Sets the number of registers per thread of this warpgroup, so that the block's warpgroups can share them unevenly.
template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace gradmill::cuda
