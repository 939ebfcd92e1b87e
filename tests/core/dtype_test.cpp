// SPDX-License-Identifier: Apache-2.0
#include "core/dtype.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace gradmill {
namespace {

// A small float format as its standard defines it, independent of the code under test.
struct Format {
  int mantissa_bits, bias;
  uint32_t largest;  // bits of the largest finite value
  bool saturates;    // false: overflow gives the next encoding, infinity
};
constexpr Format kFp16{10, 15, 0x7bff, false};
constexpr Format kBf16{7, 127, 0x7f7f, false};
constexpr Format kE4M3{3, 7, 0x7e, true};
constexpr Format kE5M2{2, 15, 0x7b, true};

double value_of(uint32_t bits, const Format& format) {
  const double units = double(1u << format.mantissa_bits);
  const double fraction = double(bits & ((1u << format.mantissa_bits) - 1)) / units;
  const int exponent = static_cast<int>(bits >> format.mantissa_bits);
  return exponent == 0 ? std::ldexp(fraction, 1 - format.bias) : std::ldexp(1 + fraction, exponent - format.bias);
}

// Every finite value without sign, and the next value past the end, which decides the rounding of overflow.
std::vector<double> values_of(const Format& format) {
  std::vector<double> values;
  for (uint32_t bits = 0; bits <= format.largest + 1; ++bits) values.push_back(value_of(bits, format));
  return values;
}

uint32_t nearest_even(double magnitude, const Format& format, const std::vector<double>& values) {
  const auto above = std::lower_bound(values.begin(), values.end(), magnitude);
  const uint32_t end = format.saturates ? format.largest : format.largest + 1;
  if (above == values.end()) return end;
  auto bits = static_cast<uint32_t>(above - values.begin());
  if (bits > 0) {
    const double down = magnitude - *(above - 1), up = *above - magnitude;
    if (down < up || (down == up && bits % 2 == 1)) --bits;
  }
  return std::min(bits, end);
}

// Every sign, exponent and upper mantissa, with lower halves around the ties.
template <class Check>
void for_many_floats(Check&& check) {
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (uint32_t low : {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      check(std::bit_cast<float>(high << 16 | low));
    }
  }
}

template <class Encode>
void expect_rounds_to_nearest_even(const Format& format, uint32_t sign_bit, Encode&& encode) {
  const std::vector<double> values = values_of(format);
  int failures = 0;
  for_many_floats([&](float value) {
    if (std::isnan(value) || failures > 3) return;
    const uint32_t sign = std::signbit(value) ? sign_bit : 0;
    const uint32_t expected = nearest_even(std::fabs(double(value)), format, values) | sign;
    if (encode(value) == expected) return;
    ++failures;
    ADD_FAILURE() << value << " became " << encode(value) << ", expected " << expected;
  });
}

TEST(DType, EncodingsRoundToNearestEven) {
  expect_rounds_to_nearest_even(kFp16, 0x8000, float_to_fp16_bits);
  expect_rounds_to_nearest_even(kBf16, 0x8000, float_to_bf16_bits);
  expect_rounds_to_nearest_even(kE4M3, 0x80, float_to_e4m3_bits);
  expect_rounds_to_nearest_even(kE5M2, 0x80, float_to_e5m2_bits);
}

template <class Decode>
void expect_decodes(const Format& format, uint32_t sign_bit, Decode&& decode) {
  for (uint32_t bits = 0; bits <= format.largest; ++bits) {
    ASSERT_EQ(double(decode(bits)), value_of(bits, format)) << bits;
    ASSERT_EQ(double(decode(bits | sign_bit)), -value_of(bits, format)) << bits;
    ASSERT_EQ(std::signbit(decode(bits | sign_bit)), true) << bits;
  }
}

TEST(DType, DecodingsAreExact) {
  expect_decodes(kFp16, 0x8000, [](uint32_t bits) { return fp16_bits_to_float(static_cast<uint16_t>(bits)); });
  expect_decodes(kE4M3, 0x80, [](uint32_t bits) { return e4m3_bits_to_float(static_cast<uint8_t>(bits)); });
  expect_decodes(kE5M2, 0x80, [](uint32_t bits) { return e5m2_bits_to_float(static_cast<uint8_t>(bits)); });
  expect_decodes(kBf16, 0x8000, [](uint32_t bits) {
    Bf16 value;
    value.bits = static_cast<uint16_t>(bits);
    return static_cast<float>(value);
  });
}

TEST(DType, PublishedValues) {
  EXPECT_EQ(fp16_bits_to_float(0x3c00), 1.0f);
  EXPECT_EQ(fp16_bits_to_float(0x0001), 0x1p-24f);
  EXPECT_EQ(fp16_bits_to_float(0x7bff), 65504.0f);
  EXPECT_EQ(e4m3_bits_to_float(0x38), 1.0f);
  EXPECT_EQ(e4m3_bits_to_float(0x01), 0x1p-9f);
  EXPECT_EQ(e4m3_bits_to_float(0x7e), 448.0f);
  EXPECT_EQ(e5m2_bits_to_float(0x3c), 1.0f);
  EXPECT_EQ(e5m2_bits_to_float(0x01), 0x1p-16f);
  EXPECT_EQ(e5m2_bits_to_float(0x7b), 57344.0f);
  EXPECT_EQ(float_to_bf16_bits(3.14159265f), 0x4049);
}

TEST(DType, InfinityAndNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(static_cast<float>(Fp16(-kInfinity)), -kInfinity);
  EXPECT_EQ(static_cast<float>(Bf16(kInfinity)), kInfinity);
  EXPECT_EQ(static_cast<float>(Fp8E4M3(kInfinity)), 448.0f);
  EXPECT_EQ(static_cast<float>(Fp8E5M2(-kInfinity)), -57344.0f);
  EXPECT_EQ(e5m2_bits_to_float(0x7c), kInfinity);
  // A NaN whose payload is only in the bits that rounding drops must not become infinity.
  for (float nan : {kNan, -kNan, std::bit_cast<float>(0x7f800001u), std::bit_cast<float>(0x7fffffffu)}) {
    EXPECT_TRUE(std::isnan(static_cast<float>(Fp16(nan))));
    EXPECT_TRUE(std::isnan(static_cast<float>(Bf16(nan))));
    EXPECT_TRUE(std::isnan(static_cast<float>(Fp8E4M3(nan))));
    EXPECT_TRUE(std::isnan(static_cast<float>(Fp8E5M2(nan))));
  }
}

TEST(DType, SizesAndEpsilons) {
  EXPECT_EQ(size_of(DType::fp32), sizeof(float));
  EXPECT_EQ(size_of(DType::bf16), sizeof(Bf16));
  EXPECT_EQ(size_of(DType::fp16), sizeof(Fp16));
  EXPECT_EQ(size_of(DType::fp8_e4m3), sizeof(Fp8E4M3));
  EXPECT_EQ(size_of(DType::fp8_e5m2), sizeof(Fp8E5M2));
  EXPECT_EQ(size_of(DType::int8), sizeof(int8_t));
  EXPECT_EQ(size_of(DType::int32), sizeof(int32_t));
  EXPECT_EQ(name_of(DType::bf16), "bf16");
  EXPECT_TRUE(is_float(DType::fp8_e5m2));
  EXPECT_FALSE(is_float(DType::int32));
  // From 1 to the next larger value of each format.
  EXPECT_EQ(epsilon_of(DType::fp32), std::numeric_limits<float>::epsilon());
  EXPECT_EQ(epsilon_of(DType::fp16), fp16_bits_to_float(0x3c01) - 1);
  EXPECT_EQ(epsilon_of(DType::bf16), float(value_of(0x3f81, kBf16)) - 1);
  EXPECT_EQ(epsilon_of(DType::fp8_e4m3), e4m3_bits_to_float(0x39) - 1);
  EXPECT_EQ(epsilon_of(DType::fp8_e5m2), e5m2_bits_to_float(0x3d) - 1);
}

}  // namespace
}  // namespace gradmill
