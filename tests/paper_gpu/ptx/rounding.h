// SPDX-License-Identifier: Apache-2.0
// Rounds a double that represents the exact result, once and in any direction, and optionally flushes it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

namespace gradmill::paper::ptx {

enum class Rounding : uint8_t { nearest, zero, down, up, away };  // away: to nearest, ties away from zero

// The rounding given by the instruction's modifiers; to nearest if there is none.
inline Rounding rounding_of(const std::vector<std::string_view>& parts) {
  for (const std::string_view part : parts) {
    if (part == "rz") return Rounding::zero;
    if (part == "rm") return Rounding::down;
    if (part == "rp") return Rounding::up;
    if (part == "rna") return Rounding::away;
  }
  return Rounding::nearest;
}

// `value` was rounded to nearest and lacks `error`. If something was lost, sets the last bit: a format with at least
// two bits less can then be rounded to as if the value were exact.
inline double odd(double value, double error) {
  const auto bits = std::bit_cast<int64_t>(value);
  const bool lost = error < 0 || error > 0;
  const int64_t step = (error > 0) == (value > 0) ? 1 : -1;
  return std::bit_cast<double>(bits + (lost && !(bits & 1) ? step : 0));
}
inline float odd_float(double exact) {
  const auto nearest = static_cast<float>(exact);
  const auto back = static_cast<double>(nearest);
  const auto bits = std::bit_cast<uint32_t>(nearest);
  const bool lost = back < exact || back > exact;
  const uint32_t step = std::fabs(back) < std::fabs(exact) ? 1 : ~0u;
  return std::bit_cast<float>(bits + (lost && !(bits & 1) ? step : 0));
}

// x + y. A sum of zero is negative only if it is rounded down or both terms are negative.
template <Rounding kRounding = Rounding::nearest>
inline double odd_sum(double x, double y) {
  const double sum = x + y, from_y = sum - x, error = (x - (sum - from_y)) + (y - from_y);
  if (kRounding == Rounding::down && sum == 0 && std::signbit(x) != std::signbit(y)) return -0.0;
  return odd(sum, error);
}

// Rounds an exact double to a float.
template <Rounding kRounding>
inline float narrowed(double exact) {
  const auto nearest = static_cast<float>(exact);
  const auto back = static_cast<double>(nearest);
  const auto bits = std::bit_cast<uint32_t>(nearest);
  const uint32_t outwards = 1, inwards = ~0u;
  uint32_t step = 0;
  if constexpr (kRounding == Rounding::zero) step = std::fabs(back) > std::fabs(exact) ? inwards : 0;
  if constexpr (kRounding == Rounding::down) step = back > exact ? (bits >> 31 ? outwards : inwards) : 0;
  if constexpr (kRounding == Rounding::up) step = back < exact ? (bits >> 31 ? inwards : outwards) : 0;
  return std::bit_cast<float>(bits + step);
}

// The normal numbers of a format begin at `least`. Just below, numbers of the same precision are `step` apart.
struct Smallest {
  double least, step;
};
inline constexpr Smallest kSmallestFloat{0x1p-126, 0x1p-150}, kSmallestHalf{0x1p-14, 0x1p-25};

// Whether an exact result, rounded to full precision, is below the normal numbers.
template <Rounding kRounding>
inline bool is_tiny(double exact, Smallest smallest) {
  const double size = std::fabs(exact);
  if (kRounding == Rounding::nearest) return size < smallest.least - smallest.step / 2;
  const bool outwards = kRounding == Rounding::up ? exact > 0 : kRounding == Rounding::down && exact < 0;
  return outwards ? size <= smallest.least - smallest.step : size < smallest.least;
}

inline double flushed(double value, Smallest smallest) {
  return std::fabs(value) < smallest.least ? std::copysign(0.0, value) : value;
}
inline float flushed(float value) { return std::fabs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value; }

// Clamps to [0, 1]; a NaN becomes 0.
template <class T>
inline T saturated(T value) {
  return value > 0 ? std::min(value, T(1)) : T(0);
}

}  // namespace gradmill::paper::ptx
