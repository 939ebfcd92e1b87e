// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/tests/exact.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace gradmill::paper::ptx::test {
namespace {

// value = mantissa * 2^exponent
struct Parts {
  bool negative;
  uint64_t mantissa;
  int exponent;
};

Parts parts(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const auto biased = static_cast<int>(bits >> 52 & 0x7ff);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  if (biased == 0) return {bits >> 63 != 0, fraction, -1074};
  return {bits >> 63 != 0, fraction | uint64_t{1} << 52, biased - 1075};
}

double overflow(bool negative, const Format& format, Rounding rounding) {
  const bool to_infinity = rounding == Rounding::rn || rounding == (negative ? Rounding::rm : Rounding::rp);
  const double value = to_infinity ? kInfinity : format.largest;
  return negative ? -value : value;
}

double zero(bool negative) { return negative ? -0.0 : 0.0; }

}  // namespace

Exact Exact::placed(bool negative, Wide mantissa, int exponent) {
  Exact result;
  result.negative_ = negative;
  int at = exponent + kBelow;
  if (at < 0) {
    const bool all = -at >= 128;
    const bool lost = all ? mantissa != 0 : (mantissa & ((Wide{1} << -at) - 1)) != 0;
    mantissa = (all ? 0 : mantissa >> -at) | (lost ? 1 : 0);
    at = 0;
  }
  const auto word = static_cast<size_t>(at / 64);
  const int shift = at % 64;
  const auto low = static_cast<uint64_t>(mantissa), high = static_cast<uint64_t>(mantissa >> 64);
  result.words_[word] = low << shift;
  result.words_[word + 1] = high << shift | (shift == 0 ? 0 : low >> (64 - shift));
  result.words_[word + 2] = shift == 0 ? 0 : high >> (64 - shift);
  return result;
}

Exact Exact::product(double a, double b) {
  const Parts x = parts(a), y = parts(b);
  return placed(x.negative != y.negative, Wide{x.mantissa} * y.mantissa, x.exponent + y.exponent);
}

Exact Exact::quotient(double a, double b) {
  Parts x = parts(a);
  const Parts y = parts(b);
  const int shift = std::countl_zero(x.mantissa) + 63;  // the dividend has 127 bits, the quotient 74 or more
  const Wide dividend = Wide{x.mantissa} << shift;
  const Wide result = dividend / y.mantissa;
  const bool rest = dividend % y.mantissa != 0;
  return placed(x.negative != y.negative, result << 1 | (rest ? 1 : 0), x.exponent - shift - y.exponent - 1);
}

Exact Exact::root(double a) {
  const Parts x = parts(a);
  int shift = std::countl_zero(x.mantissa) + 62;
  if ((x.exponent - shift) % 2 != 0) --shift;
  const Wide square = Wide{x.mantissa} << shift;
  Wide root = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const Wide next = root | Wide{1} << bit;
    if (next * next <= square) root = next;
  }
  return placed(false, root << 1 | (root * root == square ? 0 : 1), (x.exponent - shift) / 2 - 1);
}

Exact operator+(const Exact& a, const Exact& b) {
  const bool same = a.negative_ == b.negative_;
  const Exact *large = &a, *small = &b;
  for (size_t i = Exact::kWords; i-- > 0;) {
    if (a.words_[i] == b.words_[i]) continue;
    if (a.words_[i] < b.words_[i]) std::swap(large, small);
    break;
  }
  Exact result;
  result.negative_ = large->negative_;
  uint64_t carry = 0;
  for (size_t i = 0; i < Exact::kWords; ++i) {
    const Wide x = large->words_[i], y = Wide{small->words_[i]} + carry;
    const Wide sum = same ? x + y : x - y;
    result.words_[i] = static_cast<uint64_t>(sum);
    carry = static_cast<uint64_t>(sum >> 64) & 1;
  }
  return result;
}

bool Exact::is_zero() const { return top() < 0; }

int Exact::top() const {
  for (int i = kWords - 1; i >= 0; --i) {
    const uint64_t word = words_[static_cast<size_t>(i)];
    if (word != 0) return i * 64 + 63 - std::countl_zero(word);
  }
  return -1;
}

bool Exact::any_below(int i) const {
  for (int word = 0; word < i / 64; ++word) {
    if (words_[static_cast<size_t>(word)] != 0) return true;
  }
  return (words_[static_cast<size_t>(i / 64)] & ((uint64_t{1} << (i % 64)) - 1)) != 0;
}

double Exact::round(const Format& format, Rounding rounding) const {
  const int highest = top();
  const int exponent = std::max(highest - kBelow, format.min_exponent) - format.precision + 1;  // of the last place
  const int last = exponent + kBelow;
  uint64_t kept = 0;
  for (int i = highest; i >= last; --i) kept = kept << 1 | (bit(i) ? 1 : 0);
  const bool half = bit(last - 1), more = any_below(last - 1);
  bool up = false;
  if (rounding == Rounding::rn) up = half && (more || (kept & 1) != 0);
  if (rounding == Rounding::rm) up = negative_ && (half || more);
  if (rounding == Rounding::rp) up = !negative_ && (half || more);
  const double magnitude = std::ldexp(static_cast<double>(kept + (up ? 1 : 0)), exponent);
  if (magnitude > format.largest) return overflow(negative_, format, rounding);
  return negative_ ? -magnitude : magnitude;
}

double fused(double a, double b, double c, const Format& format, Rounding rounding) {
  if (std::isnan(a) || std::isnan(b) || std::isnan(c)) return kNan;
  const bool negative = std::signbit(a) != std::signbit(b);
  if (std::isinf(a) || std::isinf(b)) {
    if (a == 0 || b == 0) return kNan;
    if (std::isinf(c) && std::signbit(c) != negative) return kNan;
    return negative ? -kInfinity : kInfinity;
  }
  if (std::isinf(c)) return c;
  const Exact sum = Exact::product(a, b) + Exact::of(c);
  if (!sum.is_zero()) return sum.round(format, rounding);
  if (std::signbit(c) == negative) return zero(negative);
  return zero(rounding == Rounding::rm);
}

double add(double a, double b, const Format& format, Rounding rounding) { return fused(a, 1.0, b, format, rounding); }

double multiply(double a, double b, const Format& format, Rounding rounding) {
  if (std::isnan(a) || std::isnan(b)) return kNan;
  const bool negative = std::signbit(a) != std::signbit(b);
  if (std::isinf(a) || std::isinf(b)) return a == 0 || b == 0 ? kNan : negative ? -kInfinity : kInfinity;
  if (a == 0 || b == 0) return zero(negative);
  return Exact::product(a, b).round(format, rounding);
}

double divide(double a, double b, const Format& format, Rounding rounding) {
  if (std::isnan(a) || std::isnan(b) || (std::isinf(a) && std::isinf(b)) || (a == 0 && b == 0)) return kNan;
  const bool negative = std::signbit(a) != std::signbit(b);
  if (std::isinf(a) || b == 0) return negative ? -kInfinity : kInfinity;
  if (std::isinf(b) || a == 0) return zero(negative);
  return Exact::quotient(a, b).round(format, rounding);
}

double square_root(double a, const Format& format, Rounding rounding) {
  if (std::isnan(a) || a < 0) return kNan;
  if (a == 0 || std::isinf(a)) return a;
  return Exact::root(a).round(format, rounding);
}

double rounded(double a, const Format& format, Rounding rounding) {
  if (std::isnan(a) || std::isinf(a) || a == 0) return a;
  return Exact::of(a).round(format, rounding);
}

double rounded_to_integer(double a, Rounding rounding) {
  if (!(std::abs(a) < 0x1p52)) return a;
  const double below = std::floor(a), rest = a - below;
  double result = below;
  if (rounding == Rounding::rn && (rest > 0.5 || (rest == 0.5 && std::fmod(below, 2) != 0))) result = below + 1;
  if (rounding == Rounding::rp || (rounding == Rounding::rz && a < 0)) result = std::ceil(a);
  return std::copysign(result, a);
}

double flushed(double a, const Format& format) {
  return std::abs(a) < std::ldexp(1.0, format.min_exponent) ? zero(std::signbit(a)) : a;
}

double saturated(double a) { return a > 0 ? std::min(a, 1.0) : 0.0; }

double least(double a, double b, bool of_nan) {
  if (std::isnan(a) || std::isnan(b)) return of_nan || (std::isnan(a) && std::isnan(b)) ? kNan : std::isnan(a) ? b : a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

uint32_t encode(double value, int exponent_bits, int mantissa_bits) {
  const uint32_t sign = (std::signbit(value) ? 1u : 0u) << (exponent_bits + mantissa_bits);
  const uint32_t top = ((1u << exponent_bits) - 1) << mantissa_bits;
  if (std::isnan(value)) return top | ((1u << mantissa_bits) - 1);
  if (std::isinf(value)) return sign | top;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (value == 0) return sign;
  const int exponent = std::max(std::ilogb(value), 1 - bias);
  const auto mantissa = static_cast<uint32_t>(std::ldexp(std::abs(value), mantissa_bits - exponent));
  return sign | (mantissa + (static_cast<uint32_t>(exponent + bias - 1) << mantissa_bits));
}

double decode(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const bool negative = (bits >> (exponent_bits + mantissa_bits) & 1) != 0;
  const auto biased = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
  const uint32_t fraction = bits & ((1u << mantissa_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  double magnitude = std::ldexp(fraction, 1 - bias - mantissa_bits);
  if (biased != 0) magnitude = std::ldexp(fraction + (1u << mantissa_bits), biased - bias - mantissa_bits);
  if (biased == (1 << exponent_bits) - 1) magnitude = fraction == 0 ? kInfinity : kNan;
  return negative ? -magnitude : magnitude;
}

uint8_t encode_e4m3(double value) {
  if (std::isnan(value)) return 0x7f;
  if (std::abs(value) <= 240) return static_cast<uint8_t>(encode(value, 4, 3));
  const auto mantissa = static_cast<uint32_t>(std::abs(value) / 32);  // 8 to 14: exponent 8
  return static_cast<uint8_t>((std::signbit(value) ? 0x80u : 0u) | 0x78u | (mantissa - 8));
}

double decode_e4m3(uint8_t bits) {
  if ((bits & 0x7f) == 0x7f) return kNan;
  if ((bits & 0x78) != 0x78) return decode(bits, 4, 3);
  const double magnitude = 32.0 * (8 + (bits & 7));
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

}  // namespace gradmill::paper::ptx::test
