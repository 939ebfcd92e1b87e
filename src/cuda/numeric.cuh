// SPDX-License-Identifier: Apache-2.0
// Element types in kernels, and vectors of elements that one access of 16 bytes moves.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "core/dtype.h"
#include "core/tensor_view.h"

namespace gradmill::cuda {

template <class T>
struct NativeOf;
template <>
struct NativeOf<float> {
  using type = float;
};
template <>
struct NativeOf<Bf16> {
  using type = __nv_bfloat16;
};
template <>
struct NativeOf<Fp16> {
  using type = __half;
};
// The CUDA type with the same bits as T.
template <class T>
using Native = typename NativeOf<T>::type;

template <class T>
Native<T>* native(const TensorView& view) {
  return reinterpret_cast<Native<T>*>(view.ptr<T>());
}

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline float to_float(__half value) { return __half2float(value); }

template <class N>
__device__ inline N from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ inline __half from_float<__half>(float value) {
  return __float2half_rn(value);
}

// kSize neighbouring elements, aligned to their size (up to 16 bytes), so that one instruction moves them.
template <class N, int kCount = 16 / sizeof(N)>
struct alignas(sizeof(N) * kCount > 16 ? 16 : sizeof(N) * kCount) Pack {
  static constexpr int kSize = kCount;
  N values[kCount];

  __device__ static Pack load(const N* from) { return *reinterpret_cast<const Pack*>(from); }
  __device__ void store(N* to) const {
    if constexpr (sizeof(N) == 2 && kCount == 4) {  // the compiler splits a plain store of these
      const int2 bits = *reinterpret_cast<const int2*>(this);
      asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(bits.x), "r"(bits.y) : "memory");
    } else {
      *reinterpret_cast<Pack*>(to) = *this;
    }
  }
  __device__ float operator[](int i) const { return to_float(values[i]); }
  __device__ void set(int i, float value) { values[i] = from_float<N>(value); }
};

// Whether the rows of a view can be read in packs of kPack elements.
template <class T, int kPack = 16 / sizeof(T)>
bool rows_are_aligned(const TensorView& view) {
  return view.cols() % kPack == 0 && view.row_stride % kPack == 0 &&
         reinterpret_cast<uintptr_t>(view.data) % (sizeof(T) * kPack) == 0;
}

}  // namespace gradmill::cuda
