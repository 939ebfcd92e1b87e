// SPDX-License-Identifier: Apache-2.0
// Hopper's matrix units used by a warpgroup: four neighbouring warps start products of tiles in shared memory and
// continue while the units work. Unless built for compute capability 9.0a, this compiles to nothing, and no kernel that
// calls it is launched.
// Operands are stored in shared memory as rows of 128 bytes, starting at a multiple of 1024. In row r, the chunk of 16
// bytes with index c is stored at position c ^ r % 8. In an accumulator, warp w of the warpgroup has rows 16w .. 16w +
// 15, distributed as in mma.cuh.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

// Encloses code that only kernels for 9.0a call.
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GRADMILL_HOPPER_CODE 1
#endif

namespace gradmill::cuda {

// Descriptor of an operand that starts at `address`. The next eight rows start 1024 bytes later. For a right operand
// that is multiplied by rows and has more than 64 columns, the next 64 columns start `panel` bytes later.
__device__ inline uint64_t matrix_at(uint32_t address, uint32_t panel = 1024) {
  constexpr uint64_t kPermuted = uint64_t(1) << 62, kEightRows = uint64_t(1024 / 16);
  return kPermuted | kEightRows << 32 | uint64_t(panel / 16) << 16 | (address >> 4 & 0x3fff);
}

// The same for rows of 64 bytes: eight rows take 512 bytes, and in row r chunk c is stored at c ^ r / 2 % 4.
__device__ inline uint64_t short_matrix_at(uint32_t address) {
  constexpr uint64_t kPermuted = uint64_t(2) << 62, kEightRows = uint64_t(512 / 16);
  return kPermuted | kEightRows << 32 | uint64_t(1) << 16 | (address >> 4 & 0x3fff);
}

// Call before the first product of a batch: orders earlier writes to the registers that the batch reads or changes.
__device__ inline void begin_products() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
// Closes a batch of products. wait_for_products waits for all batches except the last kLeft.
__device__ inline void end_products() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
template <int kLeft>
__device__ inline void wait_for_products() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
#endif
}
// Keeps the compiler from moving accesses to these registers across this point.
template <class V, int kRows>
__device__ inline void hold_in_place(V (&values)[kRows][4]) {
#pragma unroll
  for (int i = 0; i < 4 * kRows; ++i) {
    if constexpr (std::is_same_v<V, float>) {
      asm volatile("" : "+f"(values[i / 4][i % 4])::"memory");
    } else {
      asm volatile("" : "+r"(values[i / 4][i % 4])::"memory");
    }
  }
}

// Makes this thread's earlier writes to shared memory visible to products and the copy engine after the next barrier.
__device__ inline void show_to_products() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

#define GRADMILL_FOUR(c, n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define GRADMILL_NEW_FOUR(c, n) "=f"(c[n][0]), "=f"(c[n][1]), "=f"(c[n][2]), "=f"(c[n][3])
#define GRADMILL_SIXTEEN(c, n) \
  GRADMILL_FOUR(c, n), GRADMILL_FOUR(c, n + 1), GRADMILL_FOUR(c, n + 2), GRADMILL_FOUR(c, n + 3)
#define GRADMILL_NEW_SIXTEEN(c, n) \
  GRADMILL_NEW_FOUR(c, n), GRADMILL_NEW_FOUR(c, n + 1), GRADMILL_NEW_FOUR(c, n + 2), GRADMILL_NEW_FOUR(c, n + 3)
// GRADMILL_MULTIPLY(type) for the type N.
#define GRADMILL_OF_EACH_TYPE                \
  if constexpr (std::is_same_v<N, __half>) { \
    GRADMILL_MULTIPLY("f16");                \
  } else {                                   \
    GRADMILL_MULTIPLY("bf16");               \
  }

// GRADMILL_MULTIPLY(type, sixteen): with kAdd the accumulators are read as well.
#define GRADMILL_ADD_OR_NOT                            \
  if constexpr (std::is_same_v<N, __half>) {           \
    if constexpr (kAdd) {                              \
      GRADMILL_MULTIPLY("f16", GRADMILL_SIXTEEN);      \
    } else {                                           \
      GRADMILL_MULTIPLY("f16", GRADMILL_NEW_SIXTEEN);  \
    }                                                  \
  } else {                                             \
    if constexpr (kAdd) {                              \
      GRADMILL_MULTIPLY("bf16", GRADMILL_SIXTEEN);     \
    } else {                                           \
      GRADMILL_MULTIPLY("bf16", GRADMILL_NEW_SIXTEEN); \
    }                                                  \
  }

#define GRADMILL_NAMES_16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define GRADMILL_NAMES_32 GRADMILL_NAMES_16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"

#define GRADMILL_NAMES_64                                            \
  GRADMILL_NAMES_32                                                  \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47" \
  ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

#define GRADMILL_NAMES_96                                            \
  GRADMILL_NAMES_64                                                  \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79" \
  ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"

#define GRADMILL_NAMES_128                                                   \
  GRADMILL_NAMES_96                                                          \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110," \
  "%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

// c (64 x 128) = a · bᵀ, or += with kAdd, over 16 columns of a (64 rows) and b (128 rows). Without kAdd, the old
// contents of c need not stay in registers.
template <class N, bool kAdd>
__device__ inline void multiply_rows(float (&c)[16][4], uint64_t a, uint64_t b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define GRADMILL_MULTIPLY(type, sixteen)                                                  \
  asm volatile(                                                                           \
      "{.reg .pred p; setp.ne.b32 p, %66, 0;"                                             \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" GRADMILL_NAMES_64 \
      "}, %64, %65, p, 1, 1, 0, 0;}"                                                      \
      : sixteen(c, 0), sixteen(c, 4), sixteen(c, 8), sixteen(c, 12)                       \
      : "l"(a), "l"(b), "n"(int(kAdd)))
  GRADMILL_ADD_OR_NOT
#undef GRADMILL_MULTIPLY
#endif
}

// The same for 64 rows of b.
template <class N, bool kAdd>
__device__ inline void multiply_rows(float (&c)[8][4], uint64_t a, uint64_t b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define GRADMILL_MULTIPLY(type, sixteen)                                                 \
  asm volatile(                                                                          \
      "{.reg .pred p; setp.ne.b32 p, %34, 0;"                                            \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" GRADMILL_NAMES_32 \
      "}, %32, %33, p, 1, 1, 0, 0;}"                                                     \
      : sixteen(c, 0), sixteen(c, 4)                                                     \
      : "l"(a), "l"(b), "n"(int(kAdd)))
  GRADMILL_ADD_OR_NOT
#undef GRADMILL_MULTIPLY
#endif
}

// The same with a (64 x 16) in registers, as mma's left operand. `a` must not change until the product is done.
template <class N, bool kAdd>
__device__ inline void multiply_rows(float (&c)[8][4], const uint32_t (&a)[4], uint64_t b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define GRADMILL_MULTIPLY(type, sixteen)                                                 \
  asm volatile(                                                                          \
      "{.reg .pred p; setp.ne.b32 p, %37, 0;"                                            \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" GRADMILL_NAMES_32 \
      "}, {%32,%33,%34,%35}, %36, p, 1, 1, 0;}"                                          \
      : sixteen(c, 0), sixteen(c, 4)                                                     \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(int(kAdd)))
  GRADMILL_ADD_OR_NOT
#undef GRADMILL_MULTIPLY
#endif
}

// c (64 x 64) += a · b, with a (64 x 16) in registers as mma's left operand and b 16 rows of 64 columns. `a` must not
// change until the product is done.
template <class N>
__device__ inline void multiply_add_columns(float (&c)[8][4], const uint32_t (&a)[4], uint64_t b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define GRADMILL_MULTIPLY(type)                                                                   \
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" GRADMILL_NAMES_32 \
               "}, {%32,%33,%34,%35}, %36, 1, 1, 1, 1;"                                           \
               : GRADMILL_SIXTEEN(c, 0), GRADMILL_SIXTEEN(c, 4)                                   \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
  GRADMILL_OF_EACH_TYPE
#undef GRADMILL_MULTIPLY
#endif
}

// c (64 x 128) += a · bᵀ, or = without `add`, over 16 columns of a (64 rows) and b (128 rows). With kRows it is a · b,
// where b has 16 rows of 128 columns.
template <class N, bool kRows>
__device__ inline void multiply(float (&c)[16][4], uint64_t a, uint64_t b, bool add) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define GRADMILL_MULTIPLY(type)                                                                         \
  asm volatile(                                                                                         \
      "{.reg .pred p; setp.ne.b32 p, %67, 0;"                                                           \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" GRADMILL_NAMES_64               \
      "}, %64, %65, p, 1, 1, 0, %66;}"                                                                  \
      : GRADMILL_SIXTEEN(c, 0), GRADMILL_SIXTEEN(c, 4), GRADMILL_SIXTEEN(c, 8), GRADMILL_SIXTEEN(c, 12) \
      : "l"(a), "l"(b), "n"(int(kRows)), "r"(int(add)))
  GRADMILL_OF_EACH_TYPE
#undef GRADMILL_MULTIPLY
#endif
}

// The same for 192 columns of c.
template <class N, bool kRows>
__device__ inline void multiply(float (&c)[24][4], uint64_t a, uint64_t b, bool add) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define GRADMILL_MULTIPLY(type)                                                                          \
  asm volatile(                                                                                          \
      "{.reg .pred p; setp.ne.b32 p, %99, 0;"                                                            \
      "wgmma.mma_async.sync.aligned.m64n192k16.f32." type "." type " {" GRADMILL_NAMES_96                \
      "}, %96, %97, p, 1, 1, 0, %98;}"                                                                   \
      : GRADMILL_SIXTEEN(c, 0), GRADMILL_SIXTEEN(c, 4), GRADMILL_SIXTEEN(c, 8), GRADMILL_SIXTEEN(c, 12), \
        GRADMILL_SIXTEEN(c, 16), GRADMILL_SIXTEEN(c, 20)                                                 \
      : "l"(a), "l"(b), "n"(int(kRows)), "r"(int(add)))
  GRADMILL_OF_EACH_TYPE
#undef GRADMILL_MULTIPLY
#endif
}

// The same for 256 columns of c.
template <class N, bool kRows>
__device__ inline void multiply(float (&c)[32][4], uint64_t a, uint64_t b, bool add) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define GRADMILL_MULTIPLY(type)                                                                            \
  asm volatile(                                                                                            \
      "{.reg .pred p; setp.ne.b32 p, %131, 0;"                                                             \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {" GRADMILL_NAMES_128                 \
      "}, %128, %129, p, 1, 1, 0, %130;}"                                                                  \
      : GRADMILL_SIXTEEN(c, 0), GRADMILL_SIXTEEN(c, 4), GRADMILL_SIXTEEN(c, 8), GRADMILL_SIXTEEN(c, 12),   \
        GRADMILL_SIXTEEN(c, 16), GRADMILL_SIXTEEN(c, 20), GRADMILL_SIXTEEN(c, 24), GRADMILL_SIXTEEN(c, 28) \
      : "l"(a), "l"(b), "n"(int(kRows)), "r"(int(add)))
  GRADMILL_OF_EACH_TYPE
#undef GRADMILL_MULTIPLY
#endif
}

#undef GRADMILL_FOUR
#undef GRADMILL_OF_EACH_TYPE
#undef GRADMILL_ADD_OR_NOT
#undef GRADMILL_NEW_FOUR
#undef GRADMILL_NEW_SIXTEEN
#undef GRADMILL_NAMES_64
#undef GRADMILL_NAMES_96
#undef GRADMILL_NAMES_128
#undef GRADMILL_SIXTEEN
#undef GRADMILL_NAMES_16
#undef GRADMILL_NAMES_32

// Stores the four matrices at the addresses from which load_matrices would read them.
__device__ inline void store_matrices(uint32_t address, const uint32_t (&from)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(from[0]),
               "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
#endif
}

}  // namespace gradmill::cuda
