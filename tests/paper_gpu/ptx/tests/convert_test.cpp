// SPDX-License-Identifier: Apache-2.0
// Conversions between integers and floating point, and between floating point formats.
#include <limits>

#include "paper_gpu/ptx/tests/instruction_test.h"

namespace gradmill::paper::ptx::test {
namespace {

using enum Rounding;
const std::vector<std::pair<std::string, Rounding>> kRoundings = {{".rn", rn}, {".rz", rz}, {".rm", rm}, {".rp", rp}};
const std::vector<std::pair<std::string, Rounding>> kToIntegers = {
    {".rni", rn}, {".rzi", rz}, {".rmi", rm}, {".rpi", rp}};

template <class... T>
struct Types {};
using Integers = Types<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>;
using Floats = Types<F16, Bf16, float, double>;

template <class T>
std::string type_name() {
  if constexpr (std::is_same_v<T, F16>) return ".f16";
  if constexpr (std::is_same_v<T, Bf16>) return ".bf16";
  if constexpr (std::is_floating_point_v<T>) return ".f" + std::to_string(8 * sizeof(T));
  if constexpr (std::is_integral_v<T>) return (std::is_signed_v<T> ? ".s" : ".u") + std::to_string(8 * sizeof(T));
}

// There is no conversion between bytes and bf16.
template <class I, class F>
constexpr bool kExists = sizeof(I) > 1 || !std::is_same_v<F, Bf16>;

template <class... T, class F>
void for_each_type(Types<T...>, F f) {
  (f(T()), ...);
}

// A register for T. Bytes are extended to registers of 16 bits.
template <class T>
using InRegister =
    std::conditional_t<std::is_same_v<T, int8_t>, int16_t, std::conditional_t<std::is_same_v<T, uint8_t>, uint16_t, T>>;

template <class T>
T clamped(SignedWide a) {
  if (a < std::numeric_limits<T>::min()) return std::numeric_limits<T>::min();
  if (a > std::numeric_limits<T>::max()) return std::numeric_limits<T>::max();
  return T(a);
}

TEST(Convert, Integers) {
  for_each_type(Integers(), []<class A>(A) {
    for_each_type(Integers(), []<class D>(D) {
      const std::string types = type_name<D>() + type_name<A>();
      expect_instruction(operation("cvt" + types, [](InRegister<A> a) { return InRegister<D>(D(A(a))); }));
      using Narrow = std::numeric_limits<D>;
      using Wide = std::numeric_limits<A>;
      if (SignedWide{Narrow::min()} <= Wide::min() && SignedWide{Narrow::max()} >= Wide::max()) return;  // no .sat
      expect_instruction(operation("cvt.sat" + types, [](InRegister<A> a) { return InRegister<D>(clamped<D>(A(a))); }));
    });
  });
}

// If the source register is wider than the type, its lower bits are used. A wider destination is extended.
TEST(Convert, WiderRegisters) {
  expect_instructions({
      operation("cvt.s32.s8", [](uint32_t a) { return int32_t{int8_t(a)}; }),
      operation("cvt.u32.u8", [](uint32_t a) { return uint32_t{uint8_t(a)}; }),
      operation("cvt.s64.s16", [](uint32_t a) { return int64_t{int16_t(a)}; }),
      operation("cvt.u16.u32", [](uint32_t a) { return uint32_t{uint16_t(a)}; }),
      operation("cvt.s16.s64", [](uint64_t a) { return int32_t{int16_t(a)}; }),
      operation("cvt.u8.u32", [](uint32_t a) { return uint32_t{uint8_t(a)}; }),
      operation("cvt.s8.u32", [](uint32_t a) { return int32_t{int8_t(a)}; }),
      operation("cvt.rn.f32.u8", [](uint32_t a) { return as<float>(a & 0xff); }),
      operation("cvt.rzi.s8.f32",
                [](float a) { return std::isnan(a) ? 0 : int32_t(std::trunc(std::fmin(std::fmax(a, -128), 127))); }),
  });
}

template <class D, class A>
InRegister<D> to_integer(double a, Rounding rounding) {
  using Limits = std::numeric_limits<D>;
  if (std::isnan(a)) {
    const bool is_top_bit = std::is_same_v<A, double> || sizeof(D) == 8;
    return InRegister<D>(is_top_bit ? D(uint64_t{1} << (8 * sizeof(D) - 1)) : D(0));
  }
  const double integer = rounded_to_integer(a, rounding);
  if (integer <= static_cast<double>(Limits::min())) return Limits::min();
  if (integer >= std::ldexp(1.0, Limits::digits)) return Limits::max();
  return InRegister<D>(D(integer));
}

TEST(Convert, FloatsToIntegers) {
  for (const auto& [name, rounding] : kToIntegers) {
    for_each_type(Floats(), [&]<class A>(A) {
      for_each_type(Integers(), [&]<class D>(D) {
        if (!kExists<D, A>) return;
        const std::string types = type_name<D>() + type_name<A>();
        const auto reference = [r = rounding](A a) { return to_integer<D, A>(value(a), r); };
        expect_instruction(operation("cvt" + name + types, reference));
        if (name == ".rni" && !std::is_same_v<A, Bf16>) expect_instruction(operation("cvt.rni.sat" + types, reference));
        if (!std::is_same_v<A, float>) return;
        expect_instruction(operation("cvt" + name + ".ftz" + types,
                                     [r = rounding](A a) { return to_integer<D, A>(flushed(value(a), kF32), r); }));
      });
    });
  }
}

template <class D>
D of_integer(SignedWide a, Rounding rounding) {
  if (a == 0) return as<D>(0.0);
  // Two doubles represent it exactly.
  const auto high = static_cast<double>(static_cast<int64_t>(a >> 32)) * 0x1p32;
  const auto low = static_cast<double>(static_cast<uint32_t>(a));
  return as<D>(add(high, low, kFormat<D>, rounding));
}

TEST(Convert, IntegersToFloats) {
  for (const auto& [name, rounding] : kRoundings) {
    for_each_type(Integers(), [&]<class A>(A) {
      for_each_type(Floats(), [&]<class D>(D) {
        if (!kExists<A, D>) return;
        const std::string types = type_name<D>() + type_name<A>();
        expect_instruction(
            operation("cvt" + name + types, [r = rounding](InRegister<A> a) { return of_integer<D>(A(a), r); }));
      });
    });
  }
}

TEST(Convert, ToIntegralFloats) {
  for (const auto& [name, rounding] : kToIntegers) {
    const Rounding r = rounding;
    expect_instructions({
        operation("cvt" + name + ".f16.f16", [=](F16 a) { return as<F16>(rounded_to_integer(value(a), r)); }),
        operation("cvt" + name + ".f32.f32", [=](float a) { return as<float>(rounded_to_integer(value(a), r)); }),
        operation("cvt" + name + ".ftz.f32.f32",
                  [=](float a) { return as<float>(rounded_to_integer(flushed(value(a), kF32), r)); }),
        operation("cvt" + name + ".sat.f32.f32",
                  [=](float a) { return as<float>(saturated(rounded_to_integer(value(a), r))); }),
        operation("cvt" + name + ".f64.f64", [=](double a) { return rounded_to_integer(a, r); }),
    });
  }
}

TEST(Convert, ToWiderFloats) {
  expect_instructions({
      operation("cvt.f32.f16", [](F16 a) { return as<float>(value(a)); }),
      operation("cvt.ftz.f32.f16", [](F16 a) { return as<float>(value(a)); }),
      operation("cvt.f64.f16", [](F16 a) { return value(a); }),
      operation("cvt.f32.bf16", [](Bf16 a) { return as<float>(value(a)); }),
      operation("cvt.f64.bf16", [](Bf16 a) { return value(a); }),
      operation("cvt.f64.f32", [](float a) { return value(a); }),
      operation("cvt.ftz.f64.f32", [](float a) { return flushed(value(a), kF32); }),
      operation("cvt.sat.f32.f16", [](F16 a) { return as<float>(saturated(value(a))); }),
      operation("cvt.sat.f64.f32", [](float a) { return saturated(value(a)); }),
      operation("cvt.sat.f32.f32", [](float a) { return as<float>(saturated(value(a))); }),
      operation("cvt.ftz.f32.f32", [](float a) { return as<float>(flushed(value(a), kF32)); }),
      operation("cvt.f32.f32", [](float a) { return a; }),
  });
}

TEST(Convert, ToNarrowerFloats) {
  for (const auto& [name, rounding] : kRoundings) {
    const Rounding r = rounding;
    expect_instructions({
        operation("cvt" + name + ".f32.f64", [=](double a) { return round_as<float>(a, r); }),
        operation("cvt" + name + ".ftz.f32.f64",
                  [=](double a) { return as<float>(flushed(rounded(a, unbounded(kF32), r), kF32)); }),
        operation("cvt" + name + ".sat.f32.f64", [=](double a) { return as<float>(saturated(rounded(a, kF32, r))); }),
        operation("cvt" + name + ".f16.f32", [=](float a) { return round_as<F16>(value(a), r); }),
        operation("cvt" + name + ".f16.f64", [=](double a) { return round_as<F16>(a, r); }),
        operation("cvt" + name + ".sat.f16.f32",
                  [=](float a) { return as<F16>(saturated(rounded(value(a), kF16, r))); }),
        operation("cvt" + name + ".bf16.f32", [=](float a) { return round_as<Bf16>(value(a), r); }),
        operation("cvt" + name + ".bf16.f16", [=](F16 a) { return round_as<Bf16>(value(a), r); }),
        operation("cvt" + name + ".f16.bf16", [=](Bf16 a) { return round_as<F16>(value(a), r); }),
        operation("cvt" + name + ".bf16.f64", [=](double a) { return round_as<Bf16>(a, r); }),
    });
  }
  // GPUs do not lose small operands here, which shows with the other two roundings.
  for (const auto& [name, rounding] : {std::pair{".rn", rn}, {".rz", rz}}) {
    expect_instruction(operation(std::string("cvt") + name + ".ftz.f16.f32",
                                 [r = rounding](float a) { return round_as<F16>(value(a), r); }));
  }
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
