// SPDX-License-Identifier: Apache-2.0
// f32 approximations, within the errors that the manual allows.
#include "paper_gpu/ptx/tests/instruction_test.h"

namespace gradmill::paper::ptx::test {
namespace {

using Result = Near<float>;
using Open = std::optional<Near<float>>;

double flushed_if(bool ftz, double a) { return ftz ? flushed(a, kF32) : a; }

// The distance between f32 values near a.
double last_place(double a) {
  if (a == 0 || !std::isfinite(a)) return 0x1p-149;
  return std::ldexp(1.0, std::max(std::ilogb(a), -126) - 23);
}

// A result with this error. With .ftz, results below the normal values become 0, and possibly also those at the bound.
Result near(double exact, double error, bool ftz) {
  if (std::isnan(exact) || std::isinf(exact)) return {exact, 0};
  if (std::abs(exact) >= kF32.largest + last_place(kF32.largest)) return {std::copysign(kInfinity, exact), 0};
  if (!ftz) return {exact, std::max(error, 0x1p-149)};
  if (std::abs(exact) + error < 0x1p-126) return {0, 0};
  if (std::abs(exact) - error < 0x1p-126) return {exact, std::abs(exact) + error};
  return {exact, error};
}
Result near_relative(double exact, double relative, bool ftz) { return near(exact, std::abs(exact) * relative, ftz); }
Result near_places(double exact, double places, bool ftz) { return near(exact, places * last_place(exact), ftz); }

void expect_functions(const std::string& modifiers, bool ftz) {
  const auto in = [=](float a) { return flushed_if(ftz, value(a)); };
  expect_instructions({
      operation("ex2.approx" + modifiers, [=](float a) { return near_relative(std::exp2(in(a)), 0x1p-22, ftz); }),
      operation("lg2.approx" + modifiers,
                [=](float a) {
                  const double exact = in(a) == 0 ? -kInfinity : std::log2(in(a));
                  return in(a) > 0.5 && in(a) < 2 ? Result{exact, 0x1p-22} : near_relative(exact, 0x1p-22, ftz);
                }),
      operation("rcp.approx" + modifiers, [=](float a) { return near_places(1 / in(a), 1, ftz); }),
      operation("rsqrt.approx" + modifiers,
                [=](float a) { return near_relative(in(a) == 0 ? 1 / in(a) : 1 / std::sqrt(in(a)), 0x1.8p-23, ftz); }),
      operation("sqrt.approx" + modifiers, [=](float a) { return near_relative(std::sqrt(in(a)), 0x1p-22, ftz); }),
  });
}

TEST(Approximate, Functions) { expect_functions(".f32", false); }
TEST(Approximate, FunctionsWithoutSubnormals) { expect_functions(".ftz.f32", true); }

// The manual gives the error only for some range.
template <class F>
auto periodic(F f, bool ftz) {
  return [=](float a) -> Open {
    const double x = flushed_if(ftz, value(a));
    if (!std::isfinite(x)) return Result{kNan, 0};
    if (std::abs(x) > 6.28) return std::nullopt;
    return Result{f(x), 0x1p-20};
  };
}

TEST(Approximate, Periodic) {
  const auto sine = [](double a) { return std::sin(a); };
  const auto cosine = [](double a) { return std::cos(a); };
  expect_instructions({
      operation("sin.approx.f32", periodic(sine, false)),
      operation("sin.approx.ftz.f32", periodic(sine, true)),
      operation("cos.approx.f32", periodic(cosine, false)),
      operation("cos.approx.ftz.f32", periodic(cosine, true)),
  });
}

TEST(Approximate, Tangent) {
  expect_instruction(
      operation("tanh.approx.f32", [](float a) { return near_relative(std::tanh(value(a)), 0x1p-10, false); }));
}

void expect_quotients(const std::string& modifiers, bool ftz) {
  const auto in = [=](float a) { return flushed_if(ftz, value(a)); };
  const auto quotient = [=](float a, float b) { return divide(in(a), in(b), kF64, Rounding::rn); };
  expect_instructions({
      operation("div.full" + modifiers, [=](float a, float b) { return near_places(quotient(a, b), 2, ftz); }),
      operation("div.approx" + modifiers,
                [=](float a, float b) -> Open {
                  const double divisor = std::abs(in(b));
                  if (std::isfinite(divisor) && divisor != 0 && (divisor < 0x1p-126 || divisor > 0x1p126)) return {};
                  return near_places(quotient(a, b), 2, ftz);
                }),
  });
}

TEST(Approximate, Quotients) { expect_quotients(".f32", false); }
TEST(Approximate, QuotientsWithoutSubnormals) { expect_quotients(".ftz.f32", true); }

// These instructions read only the upper half of an f64. Software refines their results.
template <class F>
auto of_upper_half(F f) {
  return [f](double a) -> std::optional<Near<double>> {
    const bool is_nan_below = std::isnan(a) && (std::bit_cast<uint64_t>(a) << 12 >> 44) == 0;
    if (is_nan_below) return std::nullopt;
    const double exact = flushed(f(flushed(a, kF64)), kF64);
    return Near<double>{exact, std::abs(exact) * 0x1p-19};
  };
}

TEST(Approximate, Doubles) {
  expect_instructions({
      operation("rcp.approx.ftz.f64", of_upper_half([](double a) { return 1 / a; })),
      operation("rsqrt.approx.ftz.f64", of_upper_half([](double a) { return a == 0 ? 1 / a : 1 / std::sqrt(a); })),
  });
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
