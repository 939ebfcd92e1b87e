// SPDX-License-Identifier: Apache-2.0
// 16-bit and 8-bit floating-point numbers, and how values are rounded to them.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "paper_gpu/ptx/lanes.h"
#include "paper_gpu/ptx/rounding.h"

namespace gradmill::paper::ptx {

// A binary format with a sign, `kExponent` bits of exponent and `kMantissa` of mantissa.
template <int kExponent, int kMantissa, bool kHasInfinity>
struct Format {
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr int kBits = 1 + kExponent + kMantissa;
  static constexpr uint32_t kSign = 1u << (kBits - 1), kMagnitude = kSign - 1;
  // The largest number. Without infinity, only the largest pattern is a NaN.
  static constexpr uint32_t kInfinity = kHasInfinity ? ((1u << kExponent) - 1) << kMantissa : kMagnitude;
  static constexpr uint32_t kLargest = kInfinity - 1;
  static constexpr uint32_t kNan = kMagnitude;

  static float widen(uint32_t bits) {
    const uint32_t magnitude = bits & kMagnitude;
    float value;
    if (kHasInfinity ? magnitude > kInfinity : magnitude == kMagnitude) {
      value = std::bit_cast<float>(0x7fffffffu);
    } else if (kHasInfinity && magnitude == kInfinity) {
      value = INFINITY;
    } else {
      const int exponent = static_cast<int>(magnitude >> kMantissa);
      const auto fraction = static_cast<float>(magnitude & ((1u << kMantissa) - 1));
      value = exponent == 0 ? std::ldexp(fraction, 1 - kBias - kMantissa)
                            : std::ldexp(fraction + float(1 << kMantissa), exponent - kBias - kMantissa);
    }
    return bits & kSign ? -value : value;
  }

  // `value` may be a double: it is rounded once.
  static uint32_t narrow(double value, Rounding rounding, bool saturate) {
    if (value != value) return kNan;
    const bool negative = std::signbit(value);
    const uint32_t sign = negative ? kSign : 0;
    const double size = std::fabs(value);
    if (size == 0) return sign;
    if (std::isinf(size)) return sign | (saturate ? kLargest : kInfinity);
    int exponent = 0;
    std::frexp(size, &exponent);
    const int step = std::max(exponent - 1, 1 - kBias) - kMantissa;  // the weight of the last bit
    // With a biased exponent, the pattern grows with the number.
    const auto whole = static_cast<int64_t>(whole_number(std::ldexp(size, -step), rounding, negative));
    const int64_t pattern = whole + (static_cast<int64_t>(step - (1 - kBias - kMantissa)) << kMantissa);
    if (pattern <= int64_t{kLargest}) return sign | static_cast<uint32_t>(pattern);
    const bool inwards = rounding == Rounding::zero || rounding == (negative ? Rounding::up : Rounding::down);
    if (saturate || inwards) return sign | kLargest;
    return kHasInfinity ? sign | kInfinity : kNan;
  }

 private:
  static double whole_number(double size, Rounding rounding, bool negative) {
    switch (rounding) {
      case Rounding::nearest:
        return std::nearbyint(size);
      case Rounding::away:
        return std::round(size);
      case Rounding::zero:
        return std::floor(size);
      case Rounding::down:
        return negative ? std::ceil(size) : std::floor(size);
      case Rounding::up:
        return negative ? std::floor(size) : std::ceil(size);
    }
    return size;
  }
};

using HalfFormat = Format<5, 10, true>;
using BrainFormat = Format<8, 7, true>;
using E4M3 = Format<4, 3, false>;
using E5M2 = Format<5, 2, true>;

// Values in registers.
struct Half {
  uint16_t bits;
  float number() const;
  static uint16_t rounded(float value);
};
struct Brain {
  uint16_t bits;
  float number() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
  static uint16_t rounded(float value) {
    const auto all = std::bit_cast<uint32_t>(value);
    return value != value ? uint16_t{0x7fff} : static_cast<uint16_t>((all + 0x7fff + (all >> 16 & 1)) >> 16);
  }
};

// Implemented with bit operations, which vectors support; compilers would call a library function for a conversion to
// double.
inline float Half::number() const {
  const uint32_t magnitude = (bits & 0x7fffu) << 13, sign = (bits & 0x8000u) << 16;
  const auto normal = std::bit_cast<float>(magnitude + (112u << 23));
  const float subnormal = std::bit_cast<float>(magnitude + (113u << 23)) - 0x1p-14f;
  const auto special = std::bit_cast<float>(magnitude | 0x7f800000u);
  const float size = magnitude < 1u << 23 ? subnormal : magnitude < 31u << 23 ? normal : special;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(size) | sign);
}
inline uint16_t Half::rounded(float value) {
  const auto all = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = all & 0x7fffffffu, sign = all >> 16 & 0x8000u;
  const uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  // At 0.5 the last bit of a float equals that of a subnormal half.
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - (126u << 23);
  const uint32_t size = magnitude > 0x7f800000u    ? 0x7fffu
                        : magnitude >= 0x477ff000u ? 0x7c00u
                        : magnitude < 113u << 23   ? subnormal
                                                   : normal;
  return static_cast<uint16_t>(size == 0x7fffu ? size : size | sign);
}

template <>
inline Half unpack<Half>(uint32_t bits) {
  return {static_cast<uint16_t>(bits)};
}
template <>
inline Brain unpack<Brain>(uint32_t bits) {
  return {static_cast<uint16_t>(bits)};
}

}  // namespace gradmill::paper::ptx
