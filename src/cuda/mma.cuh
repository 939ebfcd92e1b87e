// SPDX-License-Identifier: Apache-2.0
// Matrix units used by one warp: mma.sync, the loads for its operands, and asynchronous copies to shared memory.
// In a 16 x 8 accumulator, lane l = 4g + t of the warp holds (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace gradmill::cuda {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Packs two neighbouring elements; `first` has the lower address.
template <class N>
__device__ inline uint32_t pack_pair(float first, float second) {
  if constexpr (std::is_same_v<N, __half>) {
    const __half2 pair = __floats2half2_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
}

// Unpacks two neighbouring elements.
template <class N>
__device__ inline float2 unpack_pair(uint32_t pair) {
  if constexpr (std::is_same_v<N, __half>) {
    return __half22float2(*reinterpret_cast<const __half2*>(&pair));
  } else {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  }
}

// c (16 x 8) += a (16 x 16) · b (16 x 8).
template <class N>
__device__ inline void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<N, __half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
#else
  // Turing has only half the k per instruction, and only fp16.
  if constexpr (std::is_same_v<N, __half>) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b0));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[2]), "r"(a[3]), "r"(b1));
  } else {
    __trap();
  }
#endif
}

// Loads four 8 x 8 matrices of 16-bit elements. Lane 8i + r provides the address of row r of matrix i.
__device__ inline void load_matrices(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}
__device__ inline void load_matrices_transposed(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}

__device__ inline void store_shared(uint32_t address, uint32_t value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
__device__ inline void store_shared(uint32_t address, uint4 value) {
  asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(value.x), "r"(value.y), "r"(value.z),
               "r"(value.w)
               : "memory");
}
__device__ inline uint4 load_shared_16(uint32_t address) {
  uint4 value;
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(address)
               : "memory");
  return value;
}
// Stores `value` if `wanted`, without a branch.
__device__ inline void store_shared_if(bool wanted, uint32_t address, uint32_t value) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %2, 0;\n@p st.shared.b32 [%0], %1;}" ::"r"(address), "r"(value),
               "r"(int(wanted))
               : "memory");
}
__device__ inline void store_shared_byte(uint32_t address, uint32_t value) {
  asm volatile("st.shared.b8 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
__device__ inline uint32_t load_shared_word(uint32_t address) {
  uint32_t value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
__device__ inline float load_shared_float(uint32_t address) { return __uint_as_float(load_shared_word(address)); }
// Stores 16 bytes if `wanted`, without a branch. In assembly, because the compiler splits a plain vector store.
__device__ inline void store_global_16(bool wanted, void* to, uint4 value) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %5, 0;\n@p st.global.v4.b32 [%0], {%1, %2, %3, %4};}" ::"l"(to),
               "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "r"(int(wanted))
               : "memory");
}
__device__ inline float2 load_shared_pair(uint32_t address) {
  float2 value;
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(value.x), "=f"(value.y) : "r"(address) : "memory");
  return value;
}

// Starts copying kBytes (4 or 16) to shared memory; copies zeros if `there` is false. Turing copies synchronously.
template <int kBytes>
__device__ inline void copy_async(uint32_t to, const void* from, bool there) {
  static_assert(kBytes == 4 || kBytes == 16);
#if __CUDA_ARCH__ >= 800
  const int bytes = there ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
  }
#else
  if constexpr (kBytes == 16) {
    store_shared(to, there ? *static_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0));
  } else {
    store_shared(to, there ? *static_cast<const uint32_t*>(from) : 0);
  }
#endif
}
// Waits for this thread's copies. Those of other threads are visible after a barrier.
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Closes a group of this thread's copies. The function below waits for all groups except the last kLeft.
__device__ inline void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int kLeft>
__device__ inline void wait_for_groups() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#endif
}

// Prefetches the line of 128 bytes at `from` into the L2 cache.
__device__ inline void prefetch(const void* from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }

// Accurate to 2 ulp and flushes denormals: enough for weights that are rounded to 16 bits.
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace gradmill::cuda
