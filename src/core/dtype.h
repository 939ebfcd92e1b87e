// SPDX-License-Identifier: Apache-2.0
// Element types and their conversions. Every conversion rounds to nearest even; fp8 saturates.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gradmill {

enum class DType : uint8_t { fp32, bf16, fp16, fp8_e4m3, fp8_e5m2, int8, int32 };

size_t size_of(DType dtype);
std::string_view name_of(DType dtype);
bool is_float(DType dtype);
// Distance from 1 to the next larger value. Tolerances are stated in this unit.
float epsilon_of(DType dtype);

uint16_t float_to_fp16_bits(float value);
float fp16_bits_to_float(uint16_t bits);
uint8_t float_to_e4m3_bits(float value);
float e4m3_bits_to_float(uint8_t bits);
uint8_t float_to_e5m2_bits(float value);
float e5m2_bits_to_float(uint8_t bits);

inline uint16_t float_to_bf16_bits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

struct Bf16 {
  uint16_t bits = 0;
  Bf16() = default;
  explicit Bf16(float value) : bits(float_to_bf16_bits(value)) {}
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

struct Fp16 {
  uint16_t bits = 0;
  Fp16() = default;
  explicit Fp16(float value) : bits(float_to_fp16_bits(value)) {}
  explicit operator float() const { return fp16_bits_to_float(bits); }
};

struct Fp8E4M3 {
  uint8_t bits = 0;
  Fp8E4M3() = default;
  explicit Fp8E4M3(float value) : bits(float_to_e4m3_bits(value)) {}
  explicit operator float() const { return e4m3_bits_to_float(bits); }
};

struct Fp8E5M2 {
  uint8_t bits = 0;
  Fp8E5M2() = default;
  explicit Fp8E5M2(float value) : bits(float_to_e5m2_bits(value)) {}
  explicit operator float() const { return e5m2_bits_to_float(bits); }
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::fp32;
};
template <>
struct DTypeOf<Bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<Fp16> {
  static constexpr DType value = DType::fp16;
};
template <>
struct DTypeOf<Fp8E4M3> {
  static constexpr DType value = DType::fp8_e4m3;
};
template <>
struct DTypeOf<Fp8E5M2> {
  static constexpr DType value = DType::fp8_e5m2;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::int8;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::int32;
};

template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace gradmill
