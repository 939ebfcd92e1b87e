// SPDX-License-Identifier: Apache-2.0
// The modifiers of conversions, which change a value on its way from one type to another.
#pragma once

#include <cmath>
#include <limits>

#include "paper_gpu/ptx/lanes.h"
#include "paper_gpu/ptx/short_floats.h"

namespace gradmill::paper::ptx {

// kind: how a value is rounded to an integer; offset: the Rounding; flags: the other modifiers.
enum class Whole : uint8_t { no, nearest, zero, down, up };
inline constexpr uint8_t kSaturate = 1, kFlush = 2, kRelu = 4, kFinite = 8;

inline Rounding rounding_of(const Instruction& i) { return static_cast<Rounding>(i.offset); }

// Values of all types as doubles. 64-bit integers do not fit, but the last bit records whether something was lost.
template <class From>
double exact_of(SlotOf<From> bits) {
  const From value = unpack<From>(bits);
  if constexpr (std::is_integral_v<From> && sizeof(From) == 8) {
    __extension__ using Wide = __int128;
    const auto nearest = static_cast<double>(value);
    const Wide error = static_cast<Wide>(value) - static_cast<Wide>(nearest);
    return odd(nearest, static_cast<double>(error));
  } else if constexpr (std::is_arithmetic_v<From>) {
    return static_cast<double>(value);
  } else {
    return static_cast<double>(value.number());
  }
}

inline double whole(double value, Whole how) {
  switch (how) {
    case Whole::nearest:
      return std::nearbyint(value);
    case Whole::zero:
      return std::trunc(value);
    case Whole::down:
      return std::floor(value);
    case Whole::up:
      return std::ceil(value);
    default:
      return value;
  }
}

inline double limited(double value, uint8_t flags) {
  if ((flags & kRelu) && value <= 0) value = 0;
  return flags & kSaturate ? saturated(value) : value;
}

// An exact value as the bits of a 16-bit format.
template <class F>
uint32_t shortened(double exact, const Instruction& i) {
  return F::narrow(limited(exact, i.flags), rounding_of(i), i.flags & kFinite);
}
template <class T>
using FormatOf = std::conditional_t<std::is_same_v<T, Half>, HalfFormat, BrainFormat>;

// Calls visit(T()) for the type with this name, including 16-bit floats; false for other names.
template <class Visit>
bool with_number_type(std::string_view name, Visit&& visit) {
  if (name == "f16") return visit(Half());
  if (name == "bf16") return visit(Brain());
  return with_type(name, visit);
}

// Conversions of two values at a time, and conversions involving formats that no register has; see convert_packed.cpp.
bool is_packed(std::string_view type);

}  // namespace gradmill::paper::ptx
