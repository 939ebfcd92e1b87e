// SPDX-License-Identifier: Apache-2.0
// f32 and f64 arithmetic, rounded as in IEEE 754.
#include "paper_gpu/ptx/tests/instruction_test.h"

namespace gradmill::paper::ptx::test {
namespace {

using enum Rounding;
const std::vector<std::pair<std::string, Rounding>> kRoundings = {{".rn", rn}, {".rz", rz}, {".rm", rm}, {".rp", rp}};

// An f32 operation, with .ftz applied to its operands and result, and .sat to its result.
struct Modifiers {
  bool ftz = false, sat = false;
  std::string name() const { return std::string(ftz ? ".ftz" : "") + (sat ? ".sat" : ""); }
  Format format() const { return ftz ? unbounded(kF32) : kF32; }
  double in(float a) const { return ftz ? flushed(value(a), kF32) : value(a); }
  float out(double a) const {
    if (sat) a = saturated(a);
    return as<float>(ftz ? flushed(a, kF32) : a);
  }
};
constexpr Modifiers kAll[] = {{false, false}, {true, false}, {false, true}, {true, true}};
constexpr Modifiers kFlushing[] = {{false, false}, {true, false}};

TEST(Float, SumsAndProducts) {
  for (const Modifiers m : kAll) {
    for (const auto& [suffix, rounding] : kRoundings) {
      const std::string modifiers = suffix + m.name() + ".f32";
      const Rounding r = rounding;
      expect_instructions({
          operation("add" + modifiers, [=](float a, float b) { return m.out(add(m.in(a), m.in(b), m.format(), r)); }),
          operation("sub" + modifiers, [=](float a, float b) { return m.out(add(m.in(a), -m.in(b), m.format(), r)); }),
          operation("mul" + modifiers,
                    [=](float a, float b) { return m.out(multiply(m.in(a), m.in(b), m.format(), r)); }),
          operation("fma" + modifiers,
                    [=](float a, float b, float c) { return m.out(fused(m.in(a), m.in(b), m.in(c), m.format(), r)); }),
      });
    }
  }
}

// Without a rounding modifier it is .rn.
TEST(Float, DefaultRounding) {
  for (const Modifiers m : kAll) {
    const std::string modifiers = m.name() + ".f32";
    expect_instructions({
        operation("add" + modifiers, [=](float a, float b) { return m.out(add(m.in(a), m.in(b), m.format(), rn)); }),
        operation("sub" + modifiers, [=](float a, float b) { return m.out(add(m.in(a), -m.in(b), m.format(), rn)); }),
        operation("mul" + modifiers,
                  [=](float a, float b) { return m.out(multiply(m.in(a), m.in(b), m.format(), rn)); }),
    });
  }
  expect_instructions({
      operation("add.f64", [](double a, double b) { return add(a, b, kF64, rn); }),
      operation("sub.f64", [](double a, double b) { return add(a, -b, kF64, rn); }),
      operation("mul.f64", [](double a, double b) { return multiply(a, b, kF64, rn); }),
  });
}

TEST(Float, QuotientsAndRoots) {
  for (const Modifiers m : kFlushing) {
    for (const auto& [suffix, rounding] : kRoundings) {
      const std::string modifiers = suffix + m.name() + ".f32";
      const Rounding r = rounding;
      expect_instructions({
          operation("div" + modifiers,
                    [=](float a, float b) { return m.out(divide(m.in(a), m.in(b), m.format(), r)); }),
          operation("rcp" + modifiers, [=](float a) { return m.out(divide(1, m.in(a), m.format(), r)); }),
          operation("sqrt" + modifiers, [=](float a) { return m.out(square_root(m.in(a), m.format(), r)); }),
      });
    }
  }
}

TEST(Float, Doubles) {
  for (const auto& [suffix, rounding] : kRoundings) {
    const std::string modifiers = suffix + ".f64";
    const Rounding r = rounding;
    expect_instructions({
        operation("add" + modifiers, [=](double a, double b) { return add(a, b, kF64, r); }),
        operation("sub" + modifiers, [=](double a, double b) { return add(a, -b, kF64, r); }),
        operation("mul" + modifiers, [=](double a, double b) { return multiply(a, b, kF64, r); }),
        operation("fma" + modifiers, [=](double a, double b, double c) { return fused(a, b, c, kF64, r); }),
        operation("div" + modifiers, [=](double a, double b) { return divide(a, b, kF64, r); }),
        operation("rcp" + modifiers, [=](double a) { return divide(1, a, kF64, r); }),
        operation("sqrt" + modifiers, [=](double a) { return square_root(a, kF64, r); }),
    });
  }
}

TEST(Float, Extremes) {
  for (const Modifiers m : kFlushing) {
    for (const bool of_nan : {false, true}) {
      const std::string modifiers = m.name() + (of_nan ? ".NaN" : "");
      const auto sign_of_product = [](double magnitude, float a, float b) {
        if (std::isnan(magnitude)) return magnitude;
        return std::signbit(a) != std::signbit(b) ? -std::abs(magnitude) : std::abs(magnitude);
      };
      expect_instructions({
          operation("min" + modifiers + ".f32",
                    [=](float a, float b) { return m.out(least(m.in(a), m.in(b), of_nan)); }),
          operation("max" + modifiers + ".f32",
                    [=](float a, float b) { return m.out(most(m.in(a), m.in(b), of_nan)); }),
          operation("min" + modifiers + ".xorsign.abs.f32",
                    [=](float a, float b) {
                      const double least_magnitude = least(std::abs(m.in(a)), std::abs(m.in(b)), of_nan);
                      return m.out(sign_of_product(least_magnitude, a, b));
                    }),
          operation("max" + modifiers + ".xorsign.abs.f32",
                    [=](float a, float b) {
                      const double most_magnitude = most(std::abs(m.in(a)), std::abs(m.in(b)), of_nan);
                      return m.out(sign_of_product(most_magnitude, a, b));
                    }),
      });
    }
  }
  expect_instructions({
      operation("min.f64", [](double a, double b) { return least(a, b, false); }),
      operation("max.f64", [](double a, double b) { return most(a, b, false); }),
  });
}

TEST(Float, Signs) {
  for (const Modifiers m : kFlushing) {
    expect_instructions({
        operation("abs" + m.name() + ".f32", [=](float a) { return m.out(std::abs(m.in(a))); }),
        operation("neg" + m.name() + ".f32", [=](float a) { return m.out(-m.in(a)); }),
    });
  }
  // The sign of the first with the magnitude of the second, for all values.
  expect_instructions({
      operation("abs.f64", [](double a) { return std::abs(a); }),
      operation("neg.f64", [](double a) { return -a; }),
      operation("copysign.f32", [](uint32_t a, uint32_t b) { return (a & 0x80000000) | (b & 0x7fffffff); }),
      operation("copysign.f64",
                [](uint64_t a, uint64_t b) { return (a & uint64_t{1} << 63) | (b & ~(uint64_t{1} << 63)); }),
  });
}

template <class T>
void expect_tests(const std::string& type) {
  expect_instructions({
      operation("testp.finite." + type, [](T a) { return std::isfinite(a); }),
      operation("testp.infinite." + type, [](T a) { return std::isinf(a); }),
      operation("testp.number." + type, [](T a) { return !std::isnan(a); }),
      operation("testp.notanumber." + type, [](T a) { return std::isnan(a); }),
      operation("testp.normal." + type, [](T a) { return std::isnormal(a) || a == 0; }),
      operation("testp.subnormal." + type, [](T a) { return std::isfinite(a) && a != 0 && !std::isnormal(a); }),
  });
}

TEST(Float, Classes) {
  expect_tests<float>("f32");
  expect_tests<double>("f64");
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
