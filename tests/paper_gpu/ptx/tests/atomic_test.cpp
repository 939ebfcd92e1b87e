// SPDX-License-Identifier: Apache-2.0
// Atomic operations: the effect of each on a separate word, and that no update is lost if all use the same word.
#include <algorithm>
#include <numeric>

#include "paper_gpu/ptx/tests/instruction_test.h"

namespace gradmill::paper::ptx::test {
namespace {

using enum Rounding;

// The location of a lane's word: the text that computes the address, and the address.
struct Place {
  std::string space, setup, at;
};
const Place kGlobal{".global", "", "[%rd13]"};
const Place kGeneric{"", "sub.s64 %rd60, %rd102, %rd2; add.s64 %rd61, %rd13, %rd60;", "[%rd61]"};
const Place kShared{".shared",
                    ".shared .align 8 .b8 cells[256]; mov.u32 %r90, cells; shl.b32 %r91, %r1, 3; add.s32 %r92, %r90, "
                    "%r91;",
                    "[%r92]"};
const Place kGenericShared{"",
                           ".shared .align 8 .b8 cells[256]; mov.u64 %rd60, cells; cvta.shared.u64 %rd61, %rd60; "
                           "mul.wide.u32 %rd62, %r1, 8; add.s64 %rd63, %rd61, %rd62;",
                           "[%rd63]"};

// The word is the first operand. The old value is the first result, the new value the second. An operation without a
// result has only the latter. `rest` is the text after the operation's name.
template <class T, class F>
void expect_atomic(const Place& place, const std::string& operation_name, const std::string& type,
                   const std::string& rest, F f) {
  const std::string size = std::to_string(8 * sizeof(T));
  const std::vector<std::pair<std::string, std::string>> names = {
      {"$setup", place.setup},   {"$space", place.space}, {"$at", place.at},  {"$size", size},
      {"$name", operation_name}, {"$type", type},         {"$operands", rest}};
  const std::string begin = "{$setup st$space.b$size $at, $1; ", end = " ld$space.b$size ";
  const auto both = with(begin + "atom$space.$name.$type $d, $at, $operands;" + end + "$e, $at;}", names);
  const auto only_new = with(begin + "red$space.$name.$type $at, $operands;" + end + "$d, $at;}", names);
  if constexpr (std::is_invocable_v<F, T, T, T>) {
    expect_instruction(operation(both, [f](T a, T b, T c) { return std::tuple(a, f(a, b, c)); }));
  } else {
    expect_instruction(operation(both, [f](T a, T b) { return std::tuple(a, f(a, b)); }));
    if (operation_name.find("exch") != std::string::npos) return;
    expect_instruction(operation(only_new, [f](T a, T b) { return f(a, b); }));
  }
}

template <class T>
void expect_integer_atomics(const Place& place, const std::string& type) {
  expect_atomic<T>(place, "min", type, "$2", [](T a, T b) { return std::min(a, b); });
  expect_atomic<T>(place, "max", type, "$2", [](T a, T b) { return std::max(a, b); });
}
template <class T>
void expect_bit_atomics(const Place& place, const std::string& size) {
  expect_atomic<T>(place, "and", "b" + size, "$2", [](T a, T b) { return a & b; });
  expect_atomic<T>(place, "or", "b" + size, "$2", [](T a, T b) { return a | b; });
  expect_atomic<T>(place, "xor", "b" + size, "$2", [](T a, T b) { return a ^ b; });
  expect_atomic<T>(place, "exch", "b" + size, "$2", [](T, T b) { return b; });
  expect_atomic<T>(place, "cas", "b" + size, "$2, $3", [](T a, T b, T c) { return a == b ? c : a; });
}

class Atomic : public testing::TestWithParam<const Place*> {};

TEST_P(Atomic, Integers) {
  const Place& place = *GetParam();
  expect_atomic<uint32_t>(place, "add", "u32", "$2", [](uint32_t a, uint32_t b) { return a + b; });
  expect_atomic<uint32_t>(place, "add", "s32", "$2", [](uint32_t a, uint32_t b) { return a + b; });
  expect_atomic<uint64_t>(place, "add", "u64", "$2", [](uint64_t a, uint64_t b) { return a + b; });
  expect_atomic<uint32_t>(place, "inc", "u32", "$2", [](uint32_t a, uint32_t b) { return a >= b ? 0 : a + 1; });
  expect_atomic<uint32_t>(place, "dec", "u32", "$2",
                          [](uint32_t a, uint32_t b) { return a == 0 || a > b ? b : a - 1; });
  expect_integer_atomics<uint32_t>(place, "u32");
  expect_integer_atomics<int32_t>(place, "s32");
  expect_integer_atomics<uint64_t>(place, "u64");
  expect_integer_atomics<int64_t>(place, "s64");
  expect_bit_atomics<uint32_t>(place, "32");
  expect_bit_atomics<uint64_t>(place, "64");
  // 16-bit cas, where the comparison succeeds half of the time.
  const std::string cas16 =
      with("{$setup st$space.b16 $at, $1; atom$space.cas.b16 $d, $at, $2, $3; ld$space.b16 $e, $at;}",
           {{"$setup", place.setup}, {"$space", place.space}, {"$at", place.at}});
  expect_instruction(
      operation(cas16, [](uint16_t a, uint16_t b, uint16_t c) { return std::tuple(a, a == b ? c : a); }));
  const std::string same =
      with("{$setup st$space.b32 $at, $1; atom$space.cas.b32 $d, $at, $1, $2; ld$space.b32 $e, $at;}",
           {{"$setup", place.setup}, {"$space", place.space}, {"$at", place.at}});
  expect_instruction(operation(same, [](uint32_t a, uint32_t b) { return std::tuple(a, b); }));
}

TEST_P(Atomic, Doubles) {
  expect_atomic<double>(*GetParam(), "add", "f64", "$2", [](double a, double b) { return add(a, b, kF64, rn); });
}

template <class T>
Two<T> sum_of_pairs(Two<T> a, Two<T> b) {
  const auto sum = [](T x, T y) { return as<T>(add(value(x), value(y), kFormat<T>, rn)); };
  return {sum(a.low, b.low), sum(a.high, b.high)};
}

TEST_P(Atomic, Halves) {
  const Place& place = *GetParam();
  expect_atomic<F16>(place, "add.noftz", "f16", "$2",
                     [](F16 a, F16 b) { return as<F16>(add(value(a), value(b), kF16, rn)); });
  expect_atomic<Bf16>(place, "add.noftz", "bf16", "$2",
                      [](Bf16 a, Bf16 b) { return as<Bf16>(add(value(a), value(b), kBf16, rn)); });
  expect_atomic<Two<F16>>(place, "add.noftz", "f16x2", "$2", sum_of_pairs<F16>);
  expect_atomic<Two<Bf16>>(place, "add.noftz", "bf16x2", "$2", sum_of_pairs<Bf16>);
}

std::string place_name(const testing::TestParamInfo<const Place*>& place) {
  const char* const names[] = {"Global", "Generic", "Shared", "GenericShared"};
  return names[place.index];
}
INSTANTIATE_TEST_SUITE_P(In, Atomic, testing::Values(&kGlobal, &kGeneric, &kShared, &kGenericShared), place_name);

// Sums flush subnormal values in global memory and keep them in shared memory.
TEST(Atomics, Floats) {
  const auto sum = [](float a, float b) { return as<float>(add(value(a), value(b), kF32, rn)); };
  const auto flushed_sum = [](float a, float b) {
    return as<float>(flushed(add(flushed(value(a), kF32), flushed(value(b), kF32), kF32, rn), kF32));
  };
  expect_atomic<float>(kGlobal, "add", "f32", "$2", flushed_sum);
  expect_atomic<float>(kShared, "add", "f32", "$2", sum);
}

TEST(Atomics, Qualifiers) {
  const auto sum = [](uint32_t a, uint32_t b) { return a + b; };
  for (const std::string order : {".relaxed", ".acquire", ".release", ".acq_rel"}) {
    for (const std::string scope : {".cta", ".cluster", ".gpu", ".sys"}) {
      Place place = kGlobal;
      const std::string text = with(
          "st.global.u32 $at, $1; atom$order$scope.global.add.u32 $d, $at, $2; "
          "ld.global.u32 $e, $at;",
          {{"$order", order}, {"$scope", scope}, {"$at", place.at}});
      expect_instruction(operation(text, [=](uint32_t a, uint32_t b) { return std::tuple(a, sum(a, b)); }));
    }
  }
}

// 3 blocks of 64 threads use one word.
TEST(Atomics, AllOfOneWord) {
  const Source source{R"(
	mad.lo.s32 %r10, %r2, 64, %r1;
	atom.global.add.u32 %r11, [%rd1], 1;
	red.global.add.u32 [%rd1+4], %r10;
	red.global.max.s32 [%rd1+8], %r10;
	red.global.min.s32 [%rd1+12], %r10;
	atom.global.inc.u32 %r12, [%rd1+16], 9;
	red.global.or.b32 [%rd1+20], %r10;
	atom.global.exch.b32 %r13, [%rd1+24], %r10;
	mul.wide.u32 %rd10, %r10, 8;
	add.s64 %rd11, %rd2, %rd10;
	st.global.v2.u32 [%rd11], {%r11, %r13};)",
                      2};
  Buffer<uint32_t> words(7), out(2 * 192);
  const auto reset = [&] {
    std::fill(words.begin(), words.end(), 0);
    words[6] = 192;
  };
  expect_in_every_order(source, blocks_of(64, 3), {words, out}, reset, [&] {
    EXPECT_EQ(std::vector<uint32_t>(words.begin(), words.begin() + 6),
              (std::vector<uint32_t>{192, 192 * 191 / 2, 191, 0, 2, 255}));
    std::vector<uint32_t> counts, exchanged = {words[6]};
    for (size_t i = 0; i < 192; ++i) {
      counts.push_back(out[2 * i]);
      exchanged.push_back(out[2 * i + 1]);
    }
    std::sort(counts.begin(), counts.end());
    std::sort(exchanged.begin(), exchanged.end());
    std::vector<uint32_t> all(193);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(exchanged, all);
    all.pop_back();
    EXPECT_EQ(counts, all);
  });
}

// A lock by cas, as a loop that lanes leave one after the other.
TEST(Atomics, Lock) {
  const Source source{R"(
$L__BB0_1:
	atom.acquire.gpu.global.cas.b32 %r10, [%rd1], 0, 1;
	setp.ne.s32 %p1, %r10, 0;
	@%p1 bra $L__BB0_2;
	ld.relaxed.gpu.global.u32 %r11, [%rd1+4];
	add.s32 %r12, %r11, 1;
	st.relaxed.gpu.global.u32 [%rd1+4], %r12;
	atom.release.gpu.global.exch.b32 %r13, [%rd1], 0;
$L__BB0_2:
	@%p1 bra $L__BB0_1;)"};
  Buffer<uint32_t> words(2);
  expect_in_every_order(
      source, blocks_of(64, 2), {words}, [&] { words[0] = words[1] = 0; },
      [&] {
        EXPECT_EQ(words[0], 0u);
        EXPECT_EQ(words[1], 128u);
      });
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
