// SPDX-License-Identifier: Apache-2.0
// Hopper's copy engine (compute capability 9.0 and above): tiles between global and shared memory by one thread, and
// the barriers that tell of their arrival. A tile has 64 columns of 16 bits and lies as the products of cuda/wgmma.cuh
// read it.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gradmill::cuda {

inline constexpr int kTileRowBytes = 128;

// --- barriers in shared memory, by their addresses ---

__device__ inline void barrier_init(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes initialised barriers known to the copy engine.
__device__ inline void barrier_init_done() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// At the barrier that the cluster's block `rank` has at this address.
__device__ inline void barrier_arrive_at(uint32_t barrier, int rank) {
  asm volatile(
      "{.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
// At those of all blocks of the cluster, by a whole warp.
template <int kBlocks>
__device__ inline void barrier_arrive_everywhere(uint32_t barrier) {
  const int lane = int(threadIdx.x) % 32;
  if (lane < kBlocks) barrier_arrive_at(barrier, lane);
}
// Arrives, and says how many bytes copies will bring before the phase ends.
__device__ inline void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Until the phase of this parity has ended.
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

// A place in a ring of stages, each with barriers of its own, and the parity of their phase.
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

// --- copies by the engine; one thread starts each ---

// True for one lane of a warp whose lanes are all here, always the same one. The compiler then knows that it is one,
// and starts copies without asking which lanes agree on their operands.
__device__ inline bool elect_one() {
  uint32_t elected;
  asm volatile(
      "{.reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;}"
      : "=r"(elected));
  return elected != 0;
}

// The box of a tensor map at (column, row) of its tensor to shared memory.
__device__ inline void copy_tile(uint32_t to, const CUtensorMap& map, int column, int row, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}
// The same to all blocks of the cluster that `blocks` has a bit for, at the same address; each one's barrier is told.
__device__ inline void copy_tile_to(uint16_t blocks, uint32_t to, const CUtensorMap& map, int column, int row,
                                    uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier), "h"(blocks)
      : "memory");
}
// Contiguous bytes, a multiple of 16.
__device__ inline void copy_bytes(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
// The box to the L2 cache, from where it will be read soon.
__device__ inline void prefetch_tile(const CUtensorMap& map, int column, int row) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(&map), "r"(column), "r"(row)
               : "memory");
}
// Shared memory to the box of a tensor map. What threads wrote there must be fenced (show_to_products) before.
__device__ inline void store_tile(const CUtensorMap& map, int column, int row, uint32_t from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(column),
               "r"(row), "r"(from)
               : "memory");
}
// The same for what nothing reads again soon: it is the first to leave the cache.
__device__ inline void store_tile_streaming(const CUtensorMap& map, int column, int row, uint32_t from) {
  uint64_t first_to_leave;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first_to_leave));
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%1, %2}], [%3], %4;" ::"l"(&map),
      "r"(column), "r"(row), "r"(from), "l"(first_to_leave)
      : "memory");
}
// Closes a group of this thread's stores; then waits until all groups but the last kLeft have read their shared memory.
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int kLeft>
__device__ inline void wait_for_store_groups() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLeft) : "memory");
}
// Until this thread's stores have read their shared memory.
__device__ inline void wait_for_stores() {
  commit_stores();
  wait_for_store_groups<0>();
}

// Registers of this warpgroup's threads from now on: the block's warpgroups trade them.
template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace gradmill::cuda
