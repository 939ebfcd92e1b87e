// SPDX-License-Identifier: Apache-2.0
// Element types: names, sizes and the scalar conversions.
#include "core/dtype.h"

#include <array>
#include <cmath>

namespace gradmill {
namespace {

struct DTypeInfo {
  std::string_view name;
  size_t size;
  float epsilon;  // 0 for integers
};

constexpr std::array<DTypeInfo, 7> kInfo{{
    {"fp32", 4, 0x1p-23f},
    {"bf16", 2, 0x1p-7f},
    {"fp16", 2, 0x1p-10f},
    {"fp8_e4m3", 1, 0x1p-3f},
    {"fp8_e5m2", 1, 0x1p-2f},
    {"int8", 1, 0.0f},
    {"int32", 4, 0.0f},
}};

const DTypeInfo& info(DType dtype) { return kInfo[static_cast<size_t>(dtype)]; }

struct MiniFloat {
  int mantissa_bits;
  int bias;
  float max;          // largest finite value
  uint32_t nan;       // canonical NaN without sign
  uint32_t infinity;  // the bits that stand for values that overflow
};

// Rounds |value| to nearest even in the small format. Returns the bits without the sign.
uint32_t encode(float magnitude, const MiniFloat& format) {
  if (std::isnan(magnitude)) return format.nan;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // Subnormals of the format share the exponent 1 - bias.
  const int quantum_exponent = std::max(exponent - 1, 1 - format.bias) - format.mantissa_bits;
  const float scaled = std::nearbyint(std::ldexp(magnitude, -quantum_exponent));
  if (std::ldexp(scaled, quantum_exponent) > format.max || std::isinf(magnitude)) return format.infinity;
  // A mantissa overflow carries into the exponent by plain addition, as in IEEE formats.
  const int biased = quantum_exponent + format.mantissa_bits + format.bias;
  const auto units = static_cast<uint32_t>(scaled);
  const uint32_t hidden = 1u << format.mantissa_bits;
  if (units < hidden) return units;
  return (static_cast<uint32_t>(biased) << format.mantissa_bits) + (units - hidden);
}

float decode(uint32_t bits, int mantissa_bits, int bias) {
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> mantissa_bits);
  if (exponent == 0) return std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits);
  return std::ldexp(static_cast<float>(mantissa | (1u << mantissa_bits)), exponent - bias - mantissa_bits);
}

constexpr MiniFloat kFp16{10, 15, 65504.0f, 0x7e00, 0x7c00};
constexpr MiniFloat kE4M3{3, 7, 448.0f, 0x7f, 0x7e};     // saturates, has no infinity
constexpr MiniFloat kE5M2{2, 15, 57344.0f, 0x7f, 0x7b};  // saturates by choice, like __NV_SATFINITE

}  // namespace

size_t size_of(DType dtype) { return info(dtype).size; }
std::string_view name_of(DType dtype) { return info(dtype).name; }
bool is_float(DType dtype) { return info(dtype).epsilon > 0; }
float epsilon_of(DType dtype) { return info(dtype).epsilon; }

uint16_t float_to_fp16_bits(float value) {
  const uint32_t sign = std::signbit(value) ? 0x8000u : 0u;
  return static_cast<uint16_t>(sign | encode(std::fabs(value), kFp16));
}

float fp16_bits_to_float(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7fffu;
  float value;
  if (magnitude > 0x7c00u)
    value = std::nanf("");
  else if (magnitude == 0x7c00u)
    value = INFINITY;
  else
    value = decode(magnitude, 10, 15);
  return (bits & 0x8000u) ? -value : value;
}

uint8_t float_to_e4m3_bits(float value) {
  const uint32_t sign = std::signbit(value) ? 0x80u : 0u;
  return static_cast<uint8_t>(sign | encode(std::fabs(value), kE4M3));
}

float e4m3_bits_to_float(uint8_t bits) {
  const uint32_t magnitude = bits & 0x7fu;
  const float value = magnitude == 0x7fu ? std::nanf("") : decode(magnitude, 3, 7);
  return (bits & 0x80u) ? -value : value;
}

uint8_t float_to_e5m2_bits(float value) {
  const uint32_t sign = std::signbit(value) ? 0x80u : 0u;
  return static_cast<uint8_t>(sign | encode(std::fabs(value), kE5M2));
}

float e5m2_bits_to_float(uint8_t bits) {
  const uint32_t magnitude = bits & 0x7fu;
  float value;
  if (magnitude > 0x7cu)
    value = std::nanf("");
  else if (magnitude == 0x7cu)
    value = INFINITY;
  else
    value = decode(magnitude, 2, 15);
  return (bits & 0x80u) ? -value : value;
}

}  // namespace gradmill
