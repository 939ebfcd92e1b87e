// SPDX-License-Identifier: Apache-2.0
// Registers as 32 lanes of a type, and functions applied to all lanes at once.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "paper_gpu/ptx/machine.h"

namespace gradmill::paper::ptx {

// Registers have 32 or 64 bits; narrower types occupy the lower bits.
template <class T>
using SlotOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
inline T unpack(SlotOf<T> bits) {
  if constexpr (sizeof(T) == sizeof(SlotOf<T>)) {
    return std::bit_cast<T>(bits);
  } else {
    return static_cast<T>(bits);
  }
}

template <class T>
inline SlotOf<T> pack(T value) {
  if constexpr (sizeof(T) == sizeof(SlotOf<T>)) {
    return std::bit_cast<SlotOf<T>>(value);
  } else {
    return static_cast<SlotOf<T>>(static_cast<std::make_unsigned_t<T>>(value));
  }
}

// d[lane] = f(lane) for the lanes of the mask. f is computed for all lanes, so it must be cheap and must not trap.
template <class S, class F>
inline void for_lanes(S* __restrict d, uint32_t mask, F&& f) {
  if (mask == kAllLanes) {
#pragma GCC ivdep
    for (int lane = 0; lane < kLanes; ++lane) d[lane] = f(lane);
    return;
  }
  alignas(64) S result[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) result[lane] = f(lane);
  for (int lane = 0; lane < kLanes; ++lane) d[lane] = mask >> lane & 1 ? result[lane] : d[lane];
}

// The same, lane by lane, for functions that are expensive or may trap.
template <class F>
inline void for_each_lane(uint32_t mask, F&& f) {
  for (uint32_t left = mask; left != 0; left &= left - 1) f(std::countr_zero(left));
}

template <class T, class F>
void unary(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<SlotOf<T>>(i.a);
  for_lanes(warp.at<SlotOf<T>>(i.d), mask, [&](int lane) { return pack<T>(F()(unpack<T>(a[lane]))); });
}
template <class T, class F>
void binary(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto *const a = warp.at<SlotOf<T>>(i.a), *const b = warp.at<SlotOf<T>>(i.b);
  for_lanes(warp.at<SlotOf<T>>(i.d), mask,
            [&](int lane) { return pack<T>(F()(unpack<T>(a[lane]), unpack<T>(b[lane]))); });
}
template <class T, class F>
void ternary(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto *const a = warp.at<SlotOf<T>>(i.a), *const b = warp.at<SlotOf<T>>(i.b), *const c = warp.at<SlotOf<T>>(i.c);
  for_lanes(warp.at<SlotOf<T>>(i.d), mask,
            [&](int lane) { return pack<T>(F()(unpack<T>(a[lane]), unpack<T>(b[lane]), unpack<T>(c[lane]))); });
}
// For functions that may trap.
template <class T, class F>
void binary_by_lane(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto *const a = warp.at<SlotOf<T>>(i.a), *const b = warp.at<SlotOf<T>>(i.b);
  auto* const d = warp.at<SlotOf<T>>(i.d);
  for_each_lane(mask, [&](int lane) { d[lane] = pack<T>(F()(unpack<T>(a[lane]), unpack<T>(b[lane]))); });
}

inline void set_predicate(Warp& warp, Slot slot, uint32_t mask, uint32_t value) {
  if (slot == kNoSlot) return;
  warp.predicates[slot] = (warp.predicates[slot] & ~mask) | (value & mask);
}

// Calls visit(T()) for the type with this name; false for other names.
template <class Visit>
bool with_type(std::string_view name, Visit&& visit) {
  if (name == "u8" || name == "b8") return visit(uint8_t());
  if (name == "s8") return visit(int8_t());
  if (name == "u16" || name == "b16") return visit(uint16_t());
  if (name == "s16") return visit(int16_t());
  if (name == "u32" || name == "b32") return visit(uint32_t());
  if (name == "s32") return visit(int32_t());
  if (name == "u64" || name == "b64") return visit(uint64_t());
  if (name == "s64") return visit(int64_t());
  if (name == "f32") return visit(float());
  if (name == "f64") return visit(double());
  return false;
}

}  // namespace gradmill::paper::ptx
