// SPDX-License-Identifier: Apache-2.0
// Bit operations: logic, shifts, fields, permutations, moves.
#include <algorithm>
#include <array>

#include "paper_gpu/ptx/tests/instruction_test.h"

namespace gradmill::paper::ptx::test {
namespace {

template <class T>
constexpr uint32_t kBits = 8 * sizeof(T);

template <class T>
void expect_logic(const std::string& type) {
  expect_instructions({
      operation("and" + type, [](T a, T b) { return T(a & b); }),
      operation("or" + type, [](T a, T b) { return T(a | b); }),
      operation("xor" + type, [](T a, T b) { return T(a ^ b); }),
      operation("not" + type, [](T a) { return T(std::is_same_v<T, bool> ? a == 0 : ~uint64_t{a}); }),
  });
}

TEST(Bits, Logic) {
  expect_logic<uint16_t>(".b16");
  expect_logic<uint32_t>(".b32");
  expect_logic<uint64_t>(".b64");
  expect_logic<bool>(".pred");
  expect_instruction(operation("cnot.b32", [](uint32_t a) { return uint32_t{a == 0}; }));
}

template <class T>
void expect_shifts(const std::string& bits) {
  using S = std::make_signed_t<T>;
  const auto right = [](T a, uint32_t n) { return n < kBits<T> ? T(a >> n) : T(0); };
  expect_instructions({
      operation("shl.b" + bits, [](T a, uint32_t n) { return n < kBits<T> ? T(a << n) : T(0); }),
      operation("shr.u" + bits, right),
      operation("shr.b" + bits, right),
      operation("shr.s" + bits, [](S a, uint32_t n) { return S(a >> std::min(n, kBits<T> - 1)); }),
  });
}

TEST(Bits, Shifts) {
  expect_shifts<uint16_t>("16");
  expect_shifts<uint32_t>("32");
  expect_shifts<uint64_t>("64");
}

// Shifts the 64 bits {b, a} and keeps one half.
uint32_t funnel(uint32_t a, uint32_t b, uint32_t n, bool to_left) {
  const uint64_t both = uint64_t{b} << 32 | a;
  return static_cast<uint32_t>(to_left ? both << n >> 32 : both >> n);
}
template <bool kLeft, bool kClamp>
uint32_t shf(uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t n = kClamp ? std::min(c, 32u) : c & 31;
  if (n == 32) return kLeft ? a : b;
  return funnel(a, b, n, kLeft);
}

TEST(Bits, FunnelShifts) {
  expect_instructions({
      operation("shf.l.wrap.b32", shf<true, false>),
      operation("shf.l.clamp.b32", shf<true, true>),
      operation("shf.r.wrap.b32", shf<false, false>),
      operation("shf.r.clamp.b32", shf<false, true>),
  });
}

// Positions and lengths above 255 are unspecified where GPUs have no instruction for the width.
template <class T>
bool is_open(uint32_t b, uint32_t c) {
  return sizeof(T) == 8 && (b > 255 || c > 255);
}
template <class T>
std::optional<T> extracted(T a, uint32_t b, uint32_t c) {
  if (is_open<T>(b, c)) return std::nullopt;
  const uint32_t top = kBits<T> - 1, at = b & 0xff, length = c & 0xff;
  const auto bit = [&](uint32_t i) { return static_cast<uint64_t>(a) >> i & 1; };
  const uint64_t sign = !std::is_signed_v<T> || length == 0 ? 0 : bit(std::min(at + length - 1, top));
  uint64_t result = 0;
  for (uint32_t i = 0; i <= top; ++i) result |= (i < length && at + i <= top ? bit(at + i) : sign) << i;
  return static_cast<T>(result);
}
template <class T>
std::optional<T> inserted(T a, T b, uint32_t c, uint32_t d) {
  if (is_open<T>(c, d)) return std::nullopt;
  const uint32_t at = c & 0xff, length = d & 0xff;
  T result = b;
  for (uint32_t i = 0; i < length && at + i < kBits<T>; ++i) {
    const T place = T(T{1} << (at + i));
    result = T((a >> i & 1) != 0 ? result | place : result & ~place);
  }
  return result;
}

TEST(Bits, Fields) {
  expect_instructions({
      operation("bfe.u32", extracted<uint32_t>),
      operation("bfe.s32", extracted<int32_t>),
      operation("bfe.u64", extracted<uint64_t>),
      operation("bfe.s64", extracted<int64_t>),
      operation("bfi.b32", inserted<uint32_t>),
      operation("bfi.b64", inserted<uint64_t>),
  });
}

// The highest bit that differs from the sign, as a position or as the shift that moves it to the top.
template <class T, bool kShift>
uint32_t found(T a) {
  const auto bits = static_cast<uint64_t>(std::is_signed_v<T> && a < T(0) ? T(~a) : a);
  for (uint32_t i = kBits<T>; i-- > 0;) {
    if ((bits >> i & 1) != 0) return kShift ? kBits<T> - 1 - i : i;
  }
  return 0xffffffff;
}
template <class T>
uint32_t population(T a) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < kBits<T>; ++i) count += static_cast<uint32_t>(a >> i & 1);
  return count;
}
template <class T>
uint32_t leading_zeros(T a) {
  uint32_t count = 0;
  while (count < kBits<T> && (a >> (kBits<T> - 1 - count) & 1) == 0) ++count;
  return count;
}
template <class T>
T reversed(T a) {
  T result = 0;
  for (uint32_t i = 0; i < kBits<T>; ++i) result |= (a >> i & 1) << (kBits<T> - 1 - i);
  return result;
}

TEST(Bits, Counts) {
  expect_instructions({
      operation("popc.b32", population<uint32_t>),
      operation("popc.b64", population<uint64_t>),
      operation("clz.b32", leading_zeros<uint32_t>),
      operation("clz.b64", leading_zeros<uint64_t>),
      operation("brev.b32", reversed<uint32_t>),
      operation("brev.b64", reversed<uint64_t>),
      operation("bfind.u32", found<uint32_t, false>),
      operation("bfind.s32", found<int32_t, false>),
      operation("bfind.u64", found<uint64_t, false>),
      operation("bfind.s64", found<int64_t, false>),
      operation("bfind.shiftamt.u32", found<uint32_t, true>),
      operation("bfind.shiftamt.s32", found<int32_t, true>),
      operation("bfind.shiftamt.u64", found<uint64_t, true>),
      operation("bfind.shiftamt.s64", found<int64_t, true>),
  });
}

// The bytes of {b, a} selected by the four numbers; with bit 3 set, the sign of the byte is replicated instead.
uint32_t permuted(uint32_t a, uint32_t b, const uint32_t (&numbers)[4]) {
  const uint64_t both = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    auto byte = static_cast<uint8_t>(both >> 8 * (numbers[i] & 7));
    if ((numbers[i] & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= uint32_t{byte} << 8 * i;
  }
  return result;
}
uint32_t prmt(uint32_t a, uint32_t b, uint32_t c) {
  return permuted(a, b, {c & 15, c >> 4 & 15, c >> 8 & 15, c >> 12 & 15});
}
uint32_t prmt_forward(uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t n = c & 3;
  return permuted(a, b, {n, n + 1, n + 2, n + 3});
}
uint32_t prmt_backward(uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t n = c & 3;
  return permuted(a, b, {n, (n + 7) & 7, (n + 6) & 7, (n + 5) & 7});
}
uint32_t prmt_replicated(uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t n = c & 3;
  return permuted(a, b, {n, n, n, n});
}
uint32_t prmt_clamped_left(uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t n = c & 3;
  return permuted(a, b, {n, std::max(n, 1u), std::max(n, 2u), 3});
}
uint32_t prmt_clamped_right(uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t n = c & 3;
  return permuted(a, b, {0, std::min(n, 1u), std::min(n, 2u), n});
}
uint32_t prmt_halves(uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t n = (c & 1) * 2;
  return permuted(a, b, {n, n + 1, n, n + 1});
}

TEST(Bits, Permutations) {
  expect_instructions({
      operation("prmt.b32", prmt),
      operation("prmt.b32.f4e", prmt_forward),
      operation("prmt.b32.b4e", prmt_backward),
      operation("prmt.b32.rc8", prmt_replicated),
      operation("prmt.b32.ecl", prmt_clamped_left),
      operation("prmt.b32.ecr", prmt_clamped_right),
      operation("prmt.b32.rc16", prmt_halves),
      operation("prmt.b32 $d, $1, $2, 0x7632U;", [](uint32_t a, uint32_t b) { return (b & 0xffff0000) | a >> 16; }),
      operation("prmt.b32 $d, $1, $2, 30292;", [](uint32_t a, uint32_t b) { return prmt(a, b, 30292); }),
  });
}

TEST(Bits, AnyFunctionOfThree) {
  for (const uint32_t table : {0x00u, 0x80u, 0x96u, 0xe8u, 0xcau, 0x1fu, 0x78u, 0xfeu, 0xffu}) {
    const auto reference = [table](uint32_t a, uint32_t b, uint32_t c) {
      uint32_t result = 0;
      for (int i = 0; i < 32; ++i) {
        const uint32_t index = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1);
        result |= (table >> index & 1) << i;
      }
      return result;
    };
    expect_instruction(operation("lop3.b32 $d, $1, $2, $3, " + std::to_string(table) + ";", reference));
  }
}

TEST(Bits, Moves) {
  using Halves = std::tuple<uint16_t, uint16_t>;
  using Words = std::tuple<uint32_t, uint32_t>;
  expect_instructions({
      operation("mov.b16", [](uint16_t a) { return a; }),
      operation("mov.u16", [](uint16_t a) { return a; }),
      operation("mov.b32", [](uint32_t a) { return a; }),
      operation("mov.u32", [](uint32_t a) { return a; }),
      operation("mov.b64", [](uint64_t a) { return a; }),
      operation("mov.u64", [](uint64_t a) { return a; }),
      operation("mov.f32", [](float a) { return a; }),
      operation("mov.f64", [](double a) { return a; }),
      operation("mov.pred", [](bool a) { return a; }),
      operation("mov.b32", [](float a) { return std::bit_cast<uint32_t>(a); }),
      operation("mov.b64", [](double a) { return std::bit_cast<uint64_t>(a); }),
      operation("mov.b32 $d, {$1, $2};", [](uint16_t a, uint16_t b) { return uint32_t{b} << 16 | a; }),
      operation("mov.b64 $d, {$1, $2};", [](uint32_t a, uint32_t b) { return uint64_t{b} << 32 | a; }),
      operation("mov.b64 $d, {$1, $2};",
                [](float a, float b) {
                  return std::bit_cast<uint64_t>(std::array<float, 2>{a, b});
                }),
      operation("mov.b64 $d, {$1, $2, $3, $4};",
                [](uint16_t a, uint16_t b, uint16_t c, uint16_t d) {
                  return uint64_t{d} << 48 | uint64_t{c} << 32 | uint64_t{b} << 16 | a;
                }),
      operation("mov.b32 {$d, $e}, $1;", [](uint32_t a) { return Halves(a & 0xffff, a >> 16); }),
      operation("mov.b64 {$d, $e}, $1;", [](uint64_t a) { return Words(a & 0xffffffff, a >> 32); }),
      operation("mov.b64 {$d, $e}, $1;",
                [](double a) {
                  const auto bits = std::bit_cast<uint64_t>(a);
                  return Words(bits & 0xffffffff, bits >> 32);
                }),
      operation(
          "mov.b64 {$d, $e, $f, $g}, $1;",
          [](uint64_t a) { return std::tuple(uint16_t(a), uint16_t(a >> 16), uint16_t(a >> 32), uint16_t(a >> 48)); }),
      operation("{ .reg .b32 %temp; mov.b64 {%temp, $d}, $1; }",
                [](double a) { return static_cast<uint32_t>(std::bit_cast<uint64_t>(a) >> 32); }),
      operation("{.reg .b16 low,high; mov.b32 {low,high}, $1; mov.b32 $d, {high,low};}",
                [](uint32_t a) { return a << 16 | a >> 16; }),
  });
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
