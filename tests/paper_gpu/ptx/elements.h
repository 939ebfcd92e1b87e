// SPDX-License-Identifier: Apache-2.0
// Converts elements of the matrix units' operands, as stored in registers and shared memory, to fp32.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstring>

#include "paper_gpu/ptx/short_floats.h"

namespace gradmill::paper::ptx {

// kCount elements in 16 bytes.
struct HalfElements {
  static constexpr int kCount = 8, kBytes = 2;
  static void widen(const uint8_t* from, float* to) {
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }
};
struct BrainElements {
  static constexpr int kCount = 8, kBytes = 2;
  static void widen(const uint8_t* from, float* to) {
    const __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    _mm256_storeu_ps(to, _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16)));
  }
};
// The units use only 10 bits of the mantissa.
struct TensorFloatElements {
  static constexpr int kCount = 4, kBytes = 4;
  static void widen(const uint8_t* from, float* to) {
    uint32_t bits[kCount];
    std::memcpy(bits, from, sizeof(bits));
    for (int n = 0; n < kCount; ++n) to[n] = std::bit_cast<float>(bits[n] & ~0x1fffu);
  }
};
template <class F>
struct EightBitElements {
  static constexpr int kCount = 16, kBytes = 1;
  static void widen(const uint8_t* from, float* to) {
    static const std::array<float, 256> values = [] {
      std::array<float, 256> all;
      for (uint32_t bits = 0; bits < 256; ++bits) all[bits] = F::widen(bits);
      return all;
    }();
    for (int n = 0; n < kCount; ++n) to[n] = values[from[n]];
  }
};

// The order in which matrix units add: the products of up to 16 steps of k in order, then the previous value. Real
// units keep a few more bits and add in another order: see docs/paper-gpu.md.
inline constexpr int kBlock = 16;

}  // namespace gradmill::paper::ptx
