// SPDX-License-Identifier: Apache-2.0
// Arithmetic of floating-point formats with exact integers: a value is computed in full and rounded once. It does not
// rely on the processor's rounding.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace gradmill::paper::ptx::test {

__extension__ typedef unsigned __int128 Wide;
__extension__ typedef __int128 SignedWide;

enum class Rounding : uint8_t { rn, rz, rm, rp };

// Normal values have exponents from min_exponent to max_exponent. All values of all formats are doubles.
struct Format {
  int precision, min_exponent, max_exponent;
  double largest;
};
inline constexpr Format kF64{53, -1022, 1023, std::numeric_limits<double>::max()};
inline constexpr Format kF32{24, -126, 127, std::numeric_limits<float>::max()};
inline constexpr Format kF16{11, -14, 15, 65504.0};
inline constexpr Format kBf16{8, -126, 127, 0x1.FEp127};
inline constexpr Format kTf32{11, -126, 127, 0x1.FFCp127};
// With .ftz a result counts as too small if its unrounded value is.
constexpr Format unbounded(Format format) {
  format.min_exponent = -1000;
  return format;
}
inline constexpr Format kE5m2{3, -14, 15, 57344.0};
inline constexpr Format kE4m3{4, -6, 8, 448.0};

// A finite sum of products of doubles. Quotients and roots are truncated far below the precision of any format; a bit
// at the very end records that something was lost.
class Exact {
 public:
  static Exact of(double value) { return product(value, 1.0); }
  static Exact product(double a, double b);
  static Exact quotient(double a, double b);
  static Exact root(double a);
  friend Exact operator+(const Exact& a, const Exact& b);

  bool is_zero() const;
  bool is_negative() const { return negative_; }
  // For a value that is not zero. Overflow gives infinity or the largest value, depending on the rounding.
  double round(const Format& format, Rounding rounding) const;

 private:
  static constexpr int kWords = 70, kBelow = 2240;  // bit i counts 2^(i - kBelow)
  static Exact placed(bool negative, Wide mantissa, int exponent);
  bool bit(int i) const { return (words_[static_cast<size_t>(i / 64)] >> (i % 64) & 1) != 0; }
  bool any_below(int i) const;
  int top() const;

  bool negative_ = false;
  std::array<uint64_t, kWords> words_{};
};

// Operands are values of the format, including infinities, NaN and signed zeros.
double add(double a, double b, const Format& format, Rounding rounding);
double multiply(double a, double b, const Format& format, Rounding rounding);
double fused(double a, double b, double c, const Format& format, Rounding rounding);
double divide(double a, double b, const Format& format, Rounding rounding);
double square_root(double a, const Format& format, Rounding rounding);
// Rounds any double to the format.
double rounded(double a, const Format& format, Rounding rounding);
// Rounds to an integer that a double can hold.
double rounded_to_integer(double a, Rounding rounding);
// .ftz: values below the normal range become a zero of the same sign.
double flushed(double a, const Format& format);
// .sat: clamps to [0, 1]; NaN becomes 0.
double saturated(double a);
// min and max: -0 is less than +0. Of a number and NaN the result is the number, with .NaN it is NaN.
double least(double a, double b, bool of_nan);
inline double most(double a, double b, bool of_nan) { return -least(-a, -b, of_nan); }
// .relu; the sign of zeros is unspecified.
inline double relu(double a) { return a < 0 ? 0 : a; }

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The bits of a format with one sign bit; infinities and NaN have the highest exponent.
uint32_t encode(double value, int exponent_bits, int mantissa_bits);
double decode(uint32_t bits, int exponent_bits, int mantissa_bits);
// e4m3 has no infinities and one NaN per sign.
uint8_t encode_e4m3(double value);
double decode_e4m3(uint8_t bits);

struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};
// Two values in a register.
template <class T>
struct Two {
  T low, high;
};

inline double value(double a) { return a; }
inline double value(float a) { return double{a}; }
inline double value(F16 a) { return decode(a.bits, 5, 10); }
inline double value(Bf16 a) { return decode(a.bits, 8, 7); }

// A value of the format.
template <class T>
T as(double a);
template <>
inline double as<double>(double a) {
  return a;
}
template <>
inline float as<float>(double a) {
  return static_cast<float>(a);
}
template <>
inline F16 as<F16>(double a) {
  return {static_cast<uint16_t>(encode(a, 5, 10))};
}
template <>
inline Bf16 as<Bf16>(double a) {
  return {static_cast<uint16_t>(encode(a, 8, 7))};
}

template <class T>
inline constexpr Format kFormat{};
template <>
inline constexpr Format kFormat<double> = kF64;
template <>
inline constexpr Format kFormat<float> = kF32;
template <>
inline constexpr Format kFormat<F16> = kF16;
template <>
inline constexpr Format kFormat<Bf16> = kBf16;

template <class T>
T round_as(double a, Rounding rounding = Rounding::rn) {
  return as<T>(rounded(a, kFormat<T>, rounding));
}

}  // namespace gradmill::paper::ptx::test
