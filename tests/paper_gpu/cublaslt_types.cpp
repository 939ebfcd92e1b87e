// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/cublaslt_types.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace gradmill::paper {
namespace {

// A type narrower than fp32, as bits without the sign.
struct Format {
  int mantissa_bits, bias;
  uint32_t sign;
  uint32_t largest;   // the largest finite value
  uint32_t infinity;  // 0: the type has no infinity
  uint32_t overflow;  // the result of an overflow
  uint32_t nan;
};
constexpr Format kBf16{7, 127, 0x8000, 0x7f7f, 0x7f80, 0x7f80, 0x7fff};
constexpr Format kFp16{10, 15, 0x8000, 0x7bff, 0x7c00, 0x7c00, 0x7fff};
constexpr Format kE4M3{3, 7, 0x80, 0x7e, 0, 0x7e, 0x7f};
constexpr Format kE5M2{2, 15, 0x80, 0x7b, 0x7c, 0x7b, 0x7f};

constexpr int kFloatMantissa = 23, kFloatBias = 127;
constexpr uint32_t kFloatInfinity = 0x7f800000;

// The value whose last mantissa bit equals the format's smallest subnormal.
template <Format F>
constexpr float kSubnormalRounder =
    std::bit_cast<float>(static_cast<uint32_t>(kFloatMantissa + 1 - F.bias - F.mantissa_bits + kFloatBias) << 23);

template <Format F>
uint32_t encode(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff, sign = bits >> 31 ? F.sign : 0;
  if (magnitude > kFloatInfinity) return sign | F.nan;
  constexpr int kDropped = kFloatMantissa - F.mantissa_bits;
  constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(kFloatBias - F.bias + 1) << 23;
  if (magnitude < kSmallestNormal) {
    // The addition rounds to a multiple of the smallest subnormal.
    const float sum = std::bit_cast<float>(magnitude) + kSubnormalRounder<F>;
    return sign | (std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(kSubnormalRounder<F>));
  }
  const uint32_t to_nearest = (1u << (kDropped - 1)) - 1 + (magnitude >> kDropped & 1);
  const uint32_t code = (magnitude - (static_cast<uint32_t>(kFloatBias - F.bias) << 23) + to_nearest) >> kDropped;
  return sign | (code > F.largest ? F.overflow : code);
}

template <Format F>
float decode(uint32_t bits) {
  constexpr uint32_t kMantissa = (1u << F.mantissa_bits) - 1;
  const uint32_t magnitude = bits & (F.sign - 1);
  const int exponent = static_cast<int>(magnitude >> F.mantissa_bits);
  const auto mantissa = static_cast<float>(magnitude & kMantissa), one = static_cast<float>(kMantissa + 1);
  float value = 0;
  if (magnitude > F.largest) {
    value = magnitude == F.infinity ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else {
    value = exponent == 0 ? std::ldexp(mantissa, 1 - F.bias - F.mantissa_bits)
                          : std::ldexp(one + mantissa, exponent - F.bias - F.mantissa_bits);
  }
  return bits & F.sign ? -value : value;
}

// The value of every bit pattern.
template <Format F>
const float* table() {
  static const std::array<float, 2 * F.sign> values = [] {
    std::array<float, 2 * F.sign> all{};
    for (uint32_t bits = 0; bits < all.size(); ++bits) all[bits] = decode<F>(bits);
    return all;
  }();
  return values.data();
}

template <Format F, class Bits>
void look_up(const void* from, size_t count, float* to) {
  const auto* bits = static_cast<const Bits*>(from);
  const float* const values = table<F>();
  for (size_t i = 0; i < count; ++i) to[i] = values[bits[i]];
}

template <Format F, class Bits>
void encode_all(const float* from, size_t count, void* to) {
  auto* bits = static_cast<Bits*>(to);
  for (size_t i = 0; i < count; ++i) bits[i] = static_cast<Bits>(encode<F>(from[i]));
}

}  // namespace

size_t size_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_32F:
      return 4;
    case CUDA_R_16BF:
    case CUDA_R_16F:
      return 2;
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
      return 1;
    default:
      return 0;
  }
}

bool is_fp8(cudaDataType type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

std::string name_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_32F:
      return "fp32";
    case CUDA_R_16BF:
      return "bf16";
    case CUDA_R_16F:
      return "fp16";
    case CUDA_R_8F_E4M3:
      return "E4M3";
    case CUDA_R_8F_E5M2:
      return "E5M2";
    default:
      return fmt::format("type {}", int(type));
  }
}

void to_floats(cudaDataType type, const void* from, size_t count, float* to) {
  switch (type) {
    case CUDA_R_16BF: {
      const auto* bits = static_cast<const uint16_t*>(from);
      for (size_t i = 0; i < count; ++i) to[i] = std::bit_cast<float>(uint32_t{bits[i]} << 16);
      return;
    }
    case CUDA_R_16F:
      return look_up<kFp16, uint16_t>(from, count, to);
    case CUDA_R_8F_E4M3:
      return look_up<kE4M3, uint8_t>(from, count, to);
    case CUDA_R_8F_E5M2:
      return look_up<kE5M2, uint8_t>(from, count, to);
    default:
      std::memcpy(to, from, count * sizeof(float));
  }
}

void from_floats(cudaDataType type, const float* from, size_t count, void* to) {
  switch (type) {
    case CUDA_R_16BF:
      return encode_all<kBf16, uint16_t>(from, count, to);
    case CUDA_R_16F:
      return encode_all<kFp16, uint16_t>(from, count, to);
    case CUDA_R_8F_E4M3:
      return encode_all<kE4M3, uint8_t>(from, count, to);
    case CUDA_R_8F_E5M2:
      return encode_all<kE5M2, uint8_t>(from, count, to);
    default:
      std::memcpy(to, from, count * sizeof(float));
  }
}

void round_to_tf32(float* values, size_t count) {
  constexpr int kDropped = 13;
  for (size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint32_t>(values[i]);
    const uint32_t rounded = (bits + (1u << (kDropped - 1)) - 1 + (bits >> kDropped & 1)) >> kDropped << kDropped;
    const bool finite = (bits & kFloatInfinity) != kFloatInfinity;
    values[i] = finite ? std::bit_cast<float>(rounded) : values[i];
  }
}

}  // namespace gradmill::paper
