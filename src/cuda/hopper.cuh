// SPDX-License-Identifier: Apache-2.0
// Hopper's own instructions (compute capability 9.0, target sm_90a): products by warpgroups straight from shared
// memory, tiles copied by the tensor copy engine, and the barriers that tell of both. A tile has 64 columns of 16 bits,
// so rows of 128 bytes, in the engine's 128-byte swizzle: chunk c of 16 bytes of row r lies at r * 128 + (c ^ r % 8) *
// 16, the tile at a multiple of 1024. Elsewhere than on sm_90a nothing here may be used.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/mma.cuh"

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

// --- copies by the engine; one thread starts each ---

// The box of a tensor map at (column, row) of its tensor to shared memory.
__device__ inline void copy_tile(uint32_t to, const CUtensorMap& map, int column, int row, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}
// Contiguous bytes, a multiple of 16.
__device__ inline void copy_bytes(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
// Shared memory to the box of a tensor map. What threads wrote there must be fenced (fence_for_engine) before.
__device__ inline void store_tile(const CUtensorMap& map, int column, int row, uint32_t from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(column),
               "r"(row), "r"(from)
               : "memory");
}
// Until this thread's stores have read their shared memory.
__device__ inline void wait_for_stores() {
  asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
}
// This thread's writes to shared memory are for engine and products.
__device__ inline void fence_for_engine() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- products by warpgroups ---

// How a product finds a tile: rows of 128 bytes, groups of eight rows 1024 bytes apart. The same words describe a right
// operand by its rows (k contiguous) and, read the other way round, by its columns.
__device__ inline uint64_t describe_tile(uint32_t address) {
  constexpr uint64_t kGroupStride = 1024 >> 4, kSwizzle128 = 1;
  return uint64_t((address & 0x3ffff) >> 4) | uint64_t(1) << 16 | kGroupStride << 32 | kSwizzle128 << 62;
}
// Steps of 16 along k: columns of a tile whose k is contiguous, rows of one whose k is not.
inline constexpr uint64_t kStepAlongColumns = 32 >> 4, kStepAlongRows = 2048 >> 4;

// Before the first product that reads or writes registers which other instructions wrote.
__device__ inline void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// Closes a group of products.
__device__ inline void wgmma_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until all but the last kLeft groups are done.
template <int kLeft>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
// The compiler must not move uses of these registers over this place.
template <int kCount>
__device__ inline void hold_registers(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

// d (64 x 128) = a (64 x 16) · b (128 x 16)ᵀ. Both lie in shared memory, k contiguous. A function of its own and not a
// flag, because what d held before must not stay in registers.
template <class N>
__device__ inline void wgmma_tiles_new(float (&d)[64], uint64_t a, uint64_t b) {
#define GRADMILL_WGMMA(type)                                                                                        \
  asm volatile(                                                                                                     \
      "{.reg .pred add; setp.ne.b32 add, %66, 0; "                                                                  \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type                                                  \
      " {"                                                                                                          \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                      \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                            \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                            \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"                              \
      "}, %64, %65, add, 1, 1, 0, 0;}"                                                                              \
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]), "=f"(d[7]), "=f"(d[8]), \
        "=f"(d[9]), "=f"(d[10]), "=f"(d[11]), "=f"(d[12]), "=f"(d[13]), "=f"(d[14]), "=f"(d[15]), "=f"(d[16]),      \
        "=f"(d[17]), "=f"(d[18]), "=f"(d[19]), "=f"(d[20]), "=f"(d[21]), "=f"(d[22]), "=f"(d[23]), "=f"(d[24]),     \
        "=f"(d[25]), "=f"(d[26]), "=f"(d[27]), "=f"(d[28]), "=f"(d[29]), "=f"(d[30]), "=f"(d[31]), "=f"(d[32]),     \
        "=f"(d[33]), "=f"(d[34]), "=f"(d[35]), "=f"(d[36]), "=f"(d[37]), "=f"(d[38]), "=f"(d[39]), "=f"(d[40]),     \
        "=f"(d[41]), "=f"(d[42]), "=f"(d[43]), "=f"(d[44]), "=f"(d[45]), "=f"(d[46]), "=f"(d[47]), "=f"(d[48]),     \
        "=f"(d[49]), "=f"(d[50]), "=f"(d[51]), "=f"(d[52]), "=f"(d[53]), "=f"(d[54]), "=f"(d[55]), "=f"(d[56]),     \
        "=f"(d[57]), "=f"(d[58]), "=f"(d[59]), "=f"(d[60]), "=f"(d[61]), "=f"(d[62]), "=f"(d[63])                   \
      : "l"(a), "l"(b), "r"(0))
  if constexpr (std::is_same_v<N, __half>) {
    GRADMILL_WGMMA("f16");
  } else {
    GRADMILL_WGMMA("bf16");
  }
#undef GRADMILL_WGMMA
}

// d (64 x 128) += a (64 x 16) · b (128 x 16)ᵀ.
template <class N>
__device__ inline void wgmma_tiles(float (&d)[64], uint64_t a, uint64_t b) {
#define GRADMILL_WGMMA(type)                                                                                        \
  asm volatile(                                                                                                     \
      "{.reg .pred add; setp.ne.b32 add, %66, 0; "                                                                  \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type                                                  \
      " {"                                                                                                          \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                      \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                            \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                            \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"                              \
      "}, %64, %65, add, 1, 1, 0, 0;}"                                                                              \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), \
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),      \
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),     \
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]),     \
        "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]),     \
        "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),     \
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),     \
        "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])                   \
      : "l"(a), "l"(b), "r"(1))
  if constexpr (std::is_same_v<N, __half>) {
    GRADMILL_WGMMA("f16");
  } else {
    GRADMILL_WGMMA("bf16");
  }
#undef GRADMILL_WGMMA
}

// d (64 x 64) += a (64 x 16) · b (16 x 64): a in registers, as a product's result is after to_left(); b in shared
// memory, its rows contiguous.
template <class N>
__device__ inline void wgmma_left(float (&d)[32], const uint32_t (&a)[4], uint64_t b) {
#define GRADMILL_WGMMA(type)                                                                                           \
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                                             \
               " {"                                                                                                    \
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"                        \
               "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"                                                             \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),       \
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),            \
                 "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),            \
                 "+f"(d[30]), "+f"(d[31])                                                                              \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
  if constexpr (std::is_same_v<N, __half>) {
    GRADMILL_WGMMA("f16");
  } else {
    GRADMILL_WGMMA("bf16");
  }
#undef GRADMILL_WGMMA
}

// A result's columns 16 s .. 16 s + 16 as the left operand of the next product.
template <class N, int kCount>
__device__ inline void to_left(const float (&d)[kCount], int s, uint32_t (&a)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = pack_pair<N>(d[8 * s + 2 * i], d[8 * s + 2 * i + 1]);
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
