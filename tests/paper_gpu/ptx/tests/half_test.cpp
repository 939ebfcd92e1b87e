// SPDX-License-Identifier: Apache-2.0
// Arithmetic of f16 and bf16, one or two per register.
#include "paper_gpu/ptx/tests/instruction_test.h"

namespace gradmill::paper::ptx::test {
namespace {

using enum Rounding;

// Applies a function of values to one value of type T and to pairs of T.
template <class T, class F>
auto of_one(F f) {
  return [f](T a) { return f(value(a)); };
}
template <class T, class F>
auto of_two(F f) {
  return [f](T a, T b) { return f(value(a), value(b)); };
}
template <class T, class F>
auto of_three(F f) {
  return [f](T a, T b, T c) { return f(value(a), value(b), value(c)); };
}
template <class T, class F>
auto pairs_of_one(F f) {
  using R = decltype(f(0.0));
  return [f](Two<T> a) { return Two<R>{f(value(a.low)), f(value(a.high))}; };
}
template <class T, class F>
auto pairs_of_two(F f) {
  using R = decltype(f(0.0, 0.0));
  return [f](Two<T> a, Two<T> b) { return Two<R>{f(value(a.low), value(b.low)), f(value(a.high), value(b.high))}; };
}
template <class T, class F>
auto pairs_of_three(F f) {
  using R = decltype(f(0.0, 0.0, 0.0));
  return [f](Two<T> a, Two<T> b, Two<T> c) {
    return Two<R>{f(value(a.low), value(b.low), value(c.low)), f(value(a.high), value(b.high), value(c.high))};
  };
}

template <class T>
void expect_arithmetic(const std::string& name, const std::string& modifiers, bool ftz, bool sat) {
  const Format format = ftz ? unbounded(kFormat<T>) : kFormat<T>;
  const auto in = [=](double a) { return ftz ? flushed(a, kFormat<T>) : a; };
  const auto out = [=](double a) { return as<T>(in(sat ? saturated(a) : a)); };
  const auto sum = [=](double a, double b) { return out(add(in(a), in(b), format, rn)); };
  const auto difference = [=](double a, double b) { return out(add(in(a), -in(b), format, rn)); };
  const auto times = [=](double a, double b) { return out(multiply(in(a), in(b), format, rn)); };
  const auto fma = [=](double a, double b, double c) { return out(fused(in(a), in(b), in(c), format, rn)); };
  const std::string one = modifiers + "." + name, two = one + "x2";
  expect_instructions({
      operation("add" + one, of_two<T>(sum)),
      operation("add.rn" + one, of_two<T>(sum)),
      operation("add" + two, pairs_of_two<T>(sum)),
      operation("add.rn" + two, pairs_of_two<T>(sum)),
      operation("sub" + one, of_two<T>(difference)),
      operation("sub.rn" + two, pairs_of_two<T>(difference)),
      operation("mul" + one, of_two<T>(times)),
      operation("mul.rn" + two, pairs_of_two<T>(times)),
      operation("fma.rn" + one, of_three<T>(fma)),
      operation("fma.rn" + two, pairs_of_three<T>(fma)),
  });
}

TEST(Half, F16) {
  expect_arithmetic<F16>("f16", "", false, false);
  expect_arithmetic<F16>("f16", ".ftz", true, false);
  expect_arithmetic<F16>("f16", ".sat", false, true);
  expect_arithmetic<F16>("f16", ".ftz.sat", true, true);
}

TEST(Half, Bf16) { expect_arithmetic<Bf16>("bf16", "", false, false); }

template <class T>
void expect_relu(const std::string& name, const std::string& modifiers, bool ftz) {
  const Format format = ftz ? unbounded(kFormat<T>) : kFormat<T>;
  const auto in = [=](double a) { return ftz ? flushed(a, kFormat<T>) : a; };
  const auto fma = [=](double a, double b, double c) {
    return Near<T>{relu(in(fused(in(a), in(b), in(c), format, rn))), 0};
  };
  expect_instructions({
      operation("fma.rn" + modifiers + ".relu." + name, of_three<T>(fma)),
      operation("fma.rn" + modifiers + ".relu." + name + "x2", pairs_of_three<T>(fma)),
  });
}

TEST(Half, Relu) {
  expect_relu<F16>("f16", "", false);
  expect_relu<F16>("f16", ".ftz", true);
  expect_relu<Bf16>("bf16", "", false);
}

template <class T>
void expect_extremes(const std::string& name, const std::string& modifiers, bool ftz, bool of_nan, bool by_sign) {
  const auto in = [=](double a) { return ftz ? flushed(a, kFormat<T>) : a; };
  const auto magnitude = [=](double a) { return by_sign ? std::abs(in(a)) : in(a); };
  const auto out = [=](double result, double a, double b) {
    if (!by_sign || std::isnan(result)) return as<T>(result);
    return as<T>(std::signbit(a) != std::signbit(b) ? -result : result);
  };
  const auto lesser = [=](double a, double b) { return out(least(magnitude(a), magnitude(b), of_nan), a, b); };
  const auto greater = [=](double a, double b) { return out(most(magnitude(a), magnitude(b), of_nan), a, b); };
  expect_instructions({
      operation("min" + modifiers + "." + name, of_two<T>(lesser)),
      operation("max" + modifiers + "." + name, of_two<T>(greater)),
      operation("min" + modifiers + "." + name + "x2", pairs_of_two<T>(lesser)),
      operation("max" + modifiers + "." + name + "x2", pairs_of_two<T>(greater)),
  });
}

TEST(Half, Extremes) {
  expect_extremes<F16>("f16", "", false, false, false);
  expect_extremes<F16>("f16", ".ftz", true, false, false);
  expect_extremes<F16>("f16", ".NaN", false, true, false);
  expect_extremes<F16>("f16", ".ftz.NaN", true, true, false);
  expect_extremes<F16>("f16", ".xorsign.abs", false, false, true);
  expect_extremes<Bf16>("bf16", "", false, false, false);
  expect_extremes<Bf16>("bf16", ".NaN", false, true, false);
  expect_extremes<Bf16>("bf16", ".NaN.xorsign.abs", false, true, true);
}

template <class T>
void expect_signs(const std::string& name, const std::string& modifiers, bool ftz) {
  const auto in = [=](double a) { return ftz ? flushed(a, kFormat<T>) : a; };
  const auto negative = [=](double a) { return as<T>(-in(a)); };
  const auto magnitude = [=](double a) { return as<T>(std::abs(in(a))); };
  expect_instructions({
      operation("neg" + modifiers + "." + name, of_one<T>(negative)),
      operation("abs" + modifiers + "." + name, of_one<T>(magnitude)),
      operation("neg" + modifiers + "." + name + "x2", pairs_of_one<T>(negative)),
      operation("abs" + modifiers + "." + name + "x2", pairs_of_one<T>(magnitude)),
  });
}

TEST(Half, Signs) {
  expect_signs<F16>("f16", "", false);
  expect_signs<F16>("f16", ".ftz", true);
  expect_signs<Bf16>("bf16", "", false);
}

// The error is relative for ex2 and absolute for tanh of f16; for bf16 both are relative. Results are rounded too.
template <class T>
Near<T> near_power(double a, double relative) {
  if (std::isnan(a)) return {kNan, 0};
  const double exact = std::exp2(a), least_step = std::ldexp(1.0, kFormat<T>.min_exponent - kFormat<T>.precision + 1);
  if (exact > kFormat<T>.largest) return {kInfinity, 0};
  return {exact, std::max(exact * relative, least_step)};
}

TEST(Half, Approximations) {
  const auto power = [](double a) { return near_power<F16>(a, 0x1p-9); };
  const auto power_of_bf16 = [](double a) {
    const Near<Bf16> near = near_power<Bf16>(flushed(a, kBf16), 0x1p-7);
    return near.value < 0x1p-126 ? Near<Bf16>{0, 0x1p-126} : near;
  };
  const auto tangent = [](double a) { return Near<F16>{std::tanh(a), 0x1p-10}; };
  const auto tangent_of_bf16 = [](double a) { return Near<Bf16>{std::tanh(a), std::abs(std::tanh(a)) * 0x1p-7}; };
  expect_instructions({
      operation("ex2.approx.f16", of_one<F16>(power)),
      operation("ex2.approx.f16x2", pairs_of_one<F16>(power)),
      operation("ex2.approx.ftz.bf16", of_one<Bf16>(power_of_bf16)),
      operation("ex2.approx.ftz.bf16x2", pairs_of_one<Bf16>(power_of_bf16)),
      operation("tanh.approx.f16", of_one<F16>(tangent)),
      operation("tanh.approx.f16x2", pairs_of_one<F16>(tangent)),
      operation("tanh.approx.bf16", of_one<Bf16>(tangent_of_bf16)),
      operation("tanh.approx.bf16x2", pairs_of_one<Bf16>(tangent_of_bf16)),
  });
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
