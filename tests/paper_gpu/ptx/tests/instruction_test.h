// SPDX-License-Identifier: Apache-2.0
// Tests one instruction with many operands, compared lane by lane with a function that defines its result.
#pragma once

#include <bit>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "paper_gpu/ptx/tests/exact.h"
#include "paper_gpu/ptx/tests/kernel.h"

namespace gradmill::paper::ptx::test {

// The contents of a register: its kind, the values to try, and how results are compared.
enum class Kind : uint8_t { pred, b16, b32, b64, f16, bf16, f16x2, bf16x2, f32, f64 };

// A result that need not be exact: any value of type T within this distance. NaN and infinities must be exact.
template <class T>
struct Near {
  double value, error;
};

template <class T>
struct KindOf;
template <class T>
requires std::is_integral_v<T>
struct KindOf<T> {
  static constexpr Kind kind = sizeof(T) == 8 ? Kind::b64 : sizeof(T) == 4 ? Kind::b32 : Kind::b16;
};
// clang-format off
template <> struct KindOf<bool> { static constexpr Kind kind = Kind::pred; };
template <> struct KindOf<float> { static constexpr Kind kind = Kind::f32; };
template <> struct KindOf<double> { static constexpr Kind kind = Kind::f64; };
template <> struct KindOf<F16> { static constexpr Kind kind = Kind::f16; };
template <> struct KindOf<Bf16> { static constexpr Kind kind = Kind::bf16; };
template <> struct KindOf<Two<F16>> { static constexpr Kind kind = Kind::f16x2; };
template <> struct KindOf<Two<Bf16>> { static constexpr Kind kind = Kind::bf16x2; };
template <class T> struct KindOf<Near<T>> : KindOf<T> {};
template <class T> struct KindOf<Two<Near<T>>> : KindOf<Two<T>> {};
template <class T> struct KindOf<std::optional<T>> : KindOf<T> {};
// clang-format on

// Operands are in slots of 64 bits.
template <class T>
T from_slot(uint64_t slot) {
  if constexpr (std::is_same_v<T, bool>) {
    return slot != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(slot);
  } else if constexpr (sizeof(T) == 8) {
    return std::bit_cast<T>(slot);
  } else if constexpr (sizeof(T) == 4) {
    return std::bit_cast<T>(static_cast<uint32_t>(slot));
  } else {
    return std::bit_cast<T>(static_cast<uint16_t>(slot));
  }
}

template <class T>
bool agrees(const T& expected, uint64_t slot) {
  return from_slot<T>(slot) == expected;
}
template <class T>
bool same_value(T expected, T got) {
  return (std::isnan(value(expected)) && std::isnan(value(got))) || std::memcmp(&expected, &got, sizeof(T)) == 0;
}
inline bool agrees(float expected, uint64_t slot) { return same_value(expected, from_slot<float>(slot)); }
inline bool agrees(double expected, uint64_t slot) { return same_value(expected, from_slot<double>(slot)); }
inline bool agrees(F16 expected, uint64_t slot) { return same_value(expected, from_slot<F16>(slot)); }
inline bool agrees(Bf16 expected, uint64_t slot) { return same_value(expected, from_slot<Bf16>(slot)); }
template <class T>
bool agrees(const Near<T>& expected, uint64_t slot) {
  const double got = value(from_slot<T>(slot));
  if (std::isnan(expected.value)) return std::isnan(got);
  return got == expected.value || std::abs(got - expected.value) <= expected.error;
}
template <class T>
bool agrees(const Two<T>& expected, uint64_t slot) {
  return agrees(expected.low, slot & 0xffff) && agrees(expected.high, slot >> 16 & 0xffff);
}
// Empty: the manual leaves the result unspecified.
template <class T>
bool agrees(const std::optional<T>& expected, uint64_t slot) {
  return !expected.has_value() || agrees(*expected, slot);
}

template <class T>
std::string shown(const T& a) {
  if constexpr (std::is_integral_v<T>) {
    return std::to_string(a);
  } else {
    return testing::PrintToString(value(a));
  }
}
template <class T>
std::string shown(const Near<T>& a) {
  return testing::PrintToString(a.value) + " within " + testing::PrintToString(a.error);
}
template <class T>
std::string shown(const Two<T>& a) {
  return "{" + shown(a.low) + ", " + shown(a.high) + "}";
}
template <class T>
std::string shown(const std::optional<T>& a) {
  return a.has_value() ? shown(*a) : "anything";
}

struct Instruction {
  std::string text;
  std::vector<Kind> outputs, inputs;
  // Describes the expected results if they are wrong.
  std::function<std::string(const uint64_t* in, const uint64_t* out, uint32_t lane)> wrong;
};

template <class... T>
std::string differs(const std::tuple<T...>& expected, const uint64_t* out) {
  return std::apply(
      [&](const auto&... each) -> std::string {
        bool are_right = true;
        size_t i = 0;
        ((are_right &= agrees(each, out[i]), ++i), ...);
        if (are_right) return "";
        return ((shown(each) + " ") + ...);
      },
      expected);
}

template <class T>
struct Results {
  using Tuple = std::tuple<T>;
};
template <class... T>
struct Results<std::tuple<T...>> {
  using Tuple = std::tuple<T...>;
};

template <class... T>
std::vector<Kind> kinds(std::type_identity<std::tuple<T...>>) {
  return {KindOf<T>::kind...};
}

template <class R, class F, class... A, size_t... I>
Instruction instruction_of(const std::string& text, F reference, std::type_identity<std::tuple<A...>>,
                           std::index_sequence<I...>) {
  using Tuple = typename Results<R>::Tuple;
  return {text,
          kinds(std::type_identity<Tuple>()),
          {KindOf<A>::kind...},
          [reference](const uint64_t* in, const uint64_t* out, uint32_t) {
            return differs(Tuple(reference(from_slot<A>(in[I])...)), out);
          }};
}

template <class F>
struct Signature : Signature<decltype(&F::operator())> {};
template <class F, class R, class... A>
struct Signature<R (F::*)(A...) const> {
  using Result = R;
  using Arguments = std::tuple<A...>;
};
template <class R, class... A>
struct Signature<R (*)(A...)> {
  using Result = R;
  using Arguments = std::tuple<A...>;
};

// `text` is an instruction without operands ("add.s32"), to which the results and arguments are appended in this order.
// Or it is the whole text, in which results are $d, $e, $f, $g and arguments $1, $2, ... The types come from
// `reference`, a lambda or a function. Several results are a tuple.
template <class F>
Instruction operation(const std::string& text, F reference) {
  using Arguments = typename Signature<F>::Arguments;
  return instruction_of<typename Signature<F>::Result>(text, reference, std::type_identity<Arguments>(),
                                                       std::make_index_sequence<std::tuple_size_v<Arguments>>());
}

// The operands of a warp's lanes: lanes.get<int32_t>(3, 0) is the first one of lane 3.
struct Lanes {
  const uint64_t* slots;
  size_t num_inputs;
  template <class T>
  T get(uint32_t lane, size_t input) const {
    return from_slot<T>(slots[lane * num_inputs + input]);
  }
};

// For instructions of a whole warp. The reference takes the operands of all lanes and the index of one lane, and
// returns that lane's result.
template <class F>
Instruction warp_operation(const std::string& text, std::vector<Kind> inputs, F reference) {
  using Tuple = typename Results<typename Signature<F>::Result>::Tuple;
  const size_t num_inputs = inputs.size();
  return {text, kinds(std::type_identity<Tuple>()), std::move(inputs),
          [=](const uint64_t* in, const uint64_t* out, uint32_t lane) {
            return differs(Tuple(reference(Lanes{in - lane * num_inputs, num_inputs}, lane)), out);
          }};
}

void expect_instruction(const Instruction& instruction);
inline void expect_instructions(const std::vector<Instruction>& table) {
  for (const Instruction& each : table) expect_instruction(each);
}

}  // namespace gradmill::paper::ptx::test
