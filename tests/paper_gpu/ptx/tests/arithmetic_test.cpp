// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic.
#include <algorithm>
#include <limits>

#include "paper_gpu/ptx/tests/instruction_test.h"

namespace gradmill::paper::ptx::test {
namespace {

template <class T>
constexpr T kMin = std::numeric_limits<T>::min();
template <class T>
constexpr T kMax = std::numeric_limits<T>::max();

template <class T>
std::string type_name() {
  return (std::is_signed_v<T> ? "s" : "u") + std::to_string(8 * sizeof(T));
}
template <class T>
SignedWide product(T a, T b) {
  return static_cast<SignedWide>(Wide(SignedWide{a}) * Wide(SignedWide{b}));  // for two u64 only the bits count
}

template <class T>
void expect_basic_arithmetic() {
  using W = SignedWide;
  const std::string type = "." + type_name<T>();
  expect_instructions({
      operation("add" + type, [](T a, T b) { return T(W{a} + b); }),
      operation("sub" + type, [](T a, T b) { return T(W{a} - b); }),
      operation("mul.lo" + type, [](T a, T b) { return T(product(a, b)); }),
      operation("mul.hi" + type, [](T a, T b) { return T(product(a, b) >> 8 * sizeof(T)); }),
      operation("mad.lo" + type, [](T a, T b, T c) { return T(Wide(product(a, b)) + Wide(SignedWide{c})); }),
      operation("mad.hi" + type, [](T a, T b, T c) { return T((product(a, b) >> 8 * sizeof(T)) + c); }),
      operation("min" + type, [](T a, T b) { return a < b ? a : b; }),
      operation("max" + type, [](T a, T b) { return a < b ? b : a; }),
      operation("div" + type,
                [](T a, T b) -> std::optional<T> {
                  if (b == 0 || (std::is_signed_v<T> && a == kMin<T> && b == T(-1))) return std::nullopt;
                  return T(a / b);
                }),
      operation("rem" + type,
                [](T a, T b) -> std::optional<T> {
                  if (b == 0 || (std::is_signed_v<T> && a == kMin<T> && b == T(-1))) return std::nullopt;
                  return T(a % b);
                }),
  });
}

template <class T>
void expect_signed_arithmetic() {
  const std::string type = "." + type_name<T>();
  expect_instructions({
      operation("abs" + type, [](T a) { return T(a < 0 ? -SignedWide{a} : SignedWide{a}); }),
      operation("neg" + type, [](T a) { return T(-SignedWide{a}); }),
  });
}

TEST(Arithmetic, s16) { expect_basic_arithmetic<int16_t>(), expect_signed_arithmetic<int16_t>(); }
TEST(Arithmetic, s32) { expect_basic_arithmetic<int32_t>(), expect_signed_arithmetic<int32_t>(); }
TEST(Arithmetic, s64) { expect_basic_arithmetic<int64_t>(), expect_signed_arithmetic<int64_t>(); }
TEST(Arithmetic, u16) { expect_basic_arithmetic<uint16_t>(); }
TEST(Arithmetic, u32) { expect_basic_arithmetic<uint32_t>(); }
TEST(Arithmetic, u64) { expect_basic_arithmetic<uint64_t>(); }

template <class T, class R>
void expect_wide_products() {
  const std::string type = "." + type_name<T>();
  expect_instructions({
      operation("mul.wide" + type, [](T a, T b) { return R(product(a, b)); }),
      operation("mad.wide" + type, [](T a, T b, R c) { return R(product(a, b) + c); }),
  });
}

TEST(Arithmetic, WideProducts) {
  expect_instructions({
      operation("mul.wide.s16", [](int16_t a, int16_t b) { return int32_t{a} * b; }),
      operation("mul.wide.u16", [](uint16_t a, uint16_t b) { return uint32_t{a} * b; }),
  });
  expect_wide_products<int16_t, int32_t>();
  expect_wide_products<uint16_t, uint32_t>();
  expect_wide_products<int32_t, int64_t>();
  expect_wide_products<uint32_t, uint64_t>();
}

int32_t clamped(int64_t a) { return int32_t(std::min<int64_t>(std::max<int64_t>(a, kMin<int32_t>), kMax<int32_t>)); }

TEST(Arithmetic, Saturating) {
  expect_instructions({
      operation("add.sat.s32", [](int32_t a, int32_t b) { return clamped(int64_t{a} + b); }),
      operation("sub.sat.s32", [](int32_t a, int32_t b) { return clamped(int64_t{a} - b); }),
  });
}

template <class T, class F>
auto of_halves(F f) {
  return [f](uint32_t a, uint32_t b) {
    const auto low = uint16_t(f(T(a), T(b))), high = uint16_t(f(T(a >> 16), T(b >> 16)));
    return uint32_t{high} << 16 | low;
  };
}

TEST(Arithmetic, PairsOf16) {
  const auto sum = [](auto a, auto b) { return a + b; };
  const auto least = [](auto a, auto b) { return a < b ? a : b; };
  const auto most = [](auto a, auto b) { return a < b ? b : a; };
  expect_instructions({
      operation("add.u16x2", of_halves<uint16_t>(sum)),
      operation("add.s16x2", of_halves<int16_t>(sum)),
      operation("min.u16x2", of_halves<uint16_t>(least)),
      operation("min.s16x2", of_halves<int16_t>(least)),
      operation("max.u16x2", of_halves<uint16_t>(most)),
      operation("max.s16x2", of_halves<int16_t>(most)),
  });
}

// The next instruction uses the carry of the previous one.
TEST(Arithmetic, Carries) {
  using Pair = std::tuple<uint32_t, uint32_t>;
  const auto pair = [](uint64_t a) { return Pair(uint32_t(a), uint32_t(a >> 32)); };
  const auto joined = [](uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; };
  expect_instructions({
      operation("add.cc.u32 $d, $1, $3; addc.u32 $e, $2, $4;",
                [=](uint32_t a, uint32_t b, uint32_t c, uint32_t d) { return pair(joined(a, b) + joined(c, d)); }),
      operation("sub.cc.u32 $d, $1, $3; subc.u32 $e, $2, $4;",
                [=](uint32_t a, uint32_t b, uint32_t c, uint32_t d) { return pair(joined(a, b) - joined(c, d)); }),
      operation("add.cc.s32 $d, $1, $2; addc.cc.s32 $e, $1, $2; addc.s32 $f, 0, 0;",
                [](uint32_t a, uint32_t b) {
                  const uint64_t first = uint64_t{a} + b, second = uint64_t{a} + b + (first >> 32);
                  return std::tuple(uint32_t(first), uint32_t(second), uint32_t(second >> 32));
                }),
      operation("sub.cc.u32 $d, $1, $2; subc.cc.u32 $e, $1, $2; subc.u32 $f, 0, 0;",
                [](uint32_t a, uint32_t b) {
                  const uint32_t borrow = a < b ? 1 : 0;
                  const uint64_t second = uint64_t{a} - b - borrow;
                  return std::tuple(uint32_t(a - b), uint32_t(second), uint32_t(-uint32_t(second >> 63)));
                }),
      operation("add.cc.u64 $d, $1, $2; addc.u64 $e, $1, 0;",
                [](uint64_t a, uint64_t b) {
                  const uint64_t sum = a + b;
                  return std::tuple(sum, a + (sum < a ? 1 : 0));
                }),
      operation("mad.lo.cc.u32 $d, $1, $2, $3; madc.hi.u32 $e, $1, $2, $4;",
                [=](uint32_t a, uint32_t b, uint32_t c, uint32_t d) { return pair(uint64_t{a} * b + joined(c, d)); }),
  });
}

TEST(Arithmetic, Immediates) {
  expect_instructions({
      operation("add.s32 $d, $1, -5;", [](uint32_t a) { return a - 5; }),
      operation("and.b32 $d, $1, 2146435072;", [](uint32_t a) { return a & 0x7ff00000; }),
      operation("sub.s32 $d, 31, $1;", [](uint32_t a) { return 31 - a; }),
      operation("mul.wide.s32 $d, $1, -4;", [](int32_t a) { return int64_t{a} * -4; }),
      operation("add.s64 $d, $1, -8589934592;", [](uint64_t a) { return a - 0x200000000; }),
      operation("xor.b32 $d, $1, 0x9E3779B9;", [](uint32_t a) { return a ^ 0x9e3779b9; }),
      operation("mul.f32 $d, $1, 0fBF000000;", [](float a) { return as<float>(value(a) * -0.5); }),
      operation("add.f64 $d, $1, 0d8000000000000000;", [](double a) { return a; }),
      operation("add.s16 $d, $1, -1;", [](uint16_t a) { return uint16_t(a - 1); }),
      operation("mov.u32 $d, 4294967295;", [](uint32_t) { return 0xffffffffu; }),
      operation("mov.b16 $d, 0x8000;", [](uint16_t) { return uint16_t{0x8000}; }),
      operation("mov.f32 $d, 0f7FC00001;", [](uint32_t) { return 0x7fc00001u; }),
  });
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
