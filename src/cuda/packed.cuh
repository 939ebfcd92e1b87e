// SPDX-License-Identifier: Apache-2.0
// Packed: neighbouring elements kept in 32-bit words until they are used. The elements of Pack in numeric.cuh may each
// occupy a register; kernels that keep many of them alive use Packed instead.
#pragma once

#include <type_traits>

#include "cuda/numeric.cuh"

namespace gradmill::cuda {

template <class N, int kCount = 16 / sizeof(N)>
struct Packed {
  static_assert(kCount * sizeof(N) % 16 == 0);
  static constexpr int kSize = kCount, kWords = kCount * sizeof(N) / 4;
  uint32_t words[kWords];

  __device__ static Packed load(const N* from) {
    return gather([&](int i) { return reinterpret_cast<const uint4*>(from)[i]; });
  }
  // For data that is not read again soon.
  __device__ static Packed load_streaming(const N* from) {
    return gather([&](int i) { return __ldcs(reinterpret_cast<const uint4*>(from) + i); });
  }
  // Loads if `wanted`, and returns zeros otherwise, without a branch.
  __device__ static Packed load_if(bool wanted, const N* from) {
    return gather([&](int i) {
      uint4 bits = {};
      asm volatile(
          "{.reg .pred p; setp.ne.b32 p, %5, 0;\n"
          "@p ld.global.v4.b32 {%0, %1, %2, %3}, [%4];}"
          : "+r"(bits.x), "+r"(bits.y), "+r"(bits.z), "+r"(bits.w)
          : "l"(reinterpret_cast<const uint4*>(from) + i), "r"(int(wanted)));
      return bits;
    });
  }
  // In assembly, because the compiler may split a plain vector store.
  __device__ void store(N* to) const {
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(reinterpret_cast<uint32_t*>(to) + i), "r"(words[i]),
                   "r"(words[i + 1]), "r"(words[i + 2]), "r"(words[i + 3])
                   : "memory");
    }
  }
  // Stores if `wanted`, without a branch.
  __device__ void store_if(bool wanted, N* to) const {
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      asm volatile(
          "{.reg .pred p; setp.ne.b32 p, %5, 0;\n"
          "@p st.global.v4.b32 [%0], {%1, %2, %3, %4};}" ::"l"(reinterpret_cast<uint32_t*>(to) + i),
          "r"(words[i]), "r"(words[i + 1]), "r"(words[i + 2]), "r"(words[i + 3]), "r"(int(wanted))
          : "memory");
    }
  }
  // Element i in fp32.
  __device__ float operator[](int i) const {
    if constexpr (std::is_same_v<N, float>) {
      return __uint_as_float(words[i]);
    } else if constexpr (std::is_same_v<N, __nv_bfloat16>) {
      return __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000u);
    } else {
      const auto bits = static_cast<uint16_t>(i % 2 == 0 ? words[i / 2] : words[i / 2] >> 16);
      return __half2float(__ushort_as_half(bits));
    }
  }
  // Sets element i to the rounded value_at(i), two elements per instruction.
  template <class ValueAt>
  __device__ static Packed of(ValueAt&& value_at) {
    Packed result;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      if constexpr (std::is_same_v<N, float>) {
        result.words[w] = __float_as_uint(value_at(w));
      } else if constexpr (std::is_same_v<N, __nv_bfloat16>) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(value_at(2 * w), value_at(2 * w + 1));
        result.words[w] = *reinterpret_cast<const uint32_t*>(&pair);
      } else {
        const __half2 pair = __floats2half2_rn(value_at(2 * w), value_at(2 * w + 1));
        result.words[w] = *reinterpret_cast<const uint32_t*>(&pair);
      }
    }
    return result;
  }
  // Rounds once. For 16-bit elements this equals rounding the fp32 sum, because fp32 has more than twice as many
  // digits.
  __device__ friend Packed operator+(const Packed& a, const Packed& b) {
    if constexpr (std::is_same_v<N, float>) {
      return of([&](int i) { return a[i] + b[i]; });
    } else {
      using Pair = std::conditional_t<std::is_same_v<N, __half>, __half2, __nv_bfloat162>;
      Packed result;
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        const Pair sum =
            __hadd2_rn(reinterpret_cast<const Pair&>(a.words[w]), reinterpret_cast<const Pair&>(b.words[w]));
        result.words[w] = reinterpret_cast<const uint32_t&>(sum);
      }
      return result;
    }
  }

 private:
  template <class Load>
  __device__ static Packed gather(Load&& load_at) {
    Packed result;
#pragma unroll
    for (int i = 0; i < kWords / 4; ++i) {
      const uint4 bits = load_at(i);
      result.words[4 * i] = bits.x, result.words[4 * i + 1] = bits.y;
      result.words[4 * i + 2] = bits.z, result.words[4 * i + 3] = bits.w;
    }
    return result;
  }
};

// A single element, for rows that are not aligned.
template <class N>
struct Packed<N, 1> {
  static constexpr int kSize = 1;
  N value;

  __device__ static Packed load(const N* from) { return {*from}; }
  __device__ static Packed load_streaming(const N* from) { return {*from}; }
  __device__ void store(N* to) const { *to = value; }
  __device__ float operator[](int) const { return to_float(value); }
  template <class ValueAt>
  __device__ static Packed of(ValueAt&& value_at) {
    return {from_float<N>(value_at(0))};
  }
};

}  // namespace gradmill::cuda
