// SPDX-License-Identifier: Apache-2.0
// Comparisons and selections.
#include "paper_gpu/ptx/tests/instruction_test.h"

namespace gradmill::paper::ptx::test {
namespace {

template <class T>
bool is_nan(T a) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return std::isnan(value(a));
}
template <class T>
auto number(T a) {
  if constexpr (std::is_integral_v<T>)
    return a;
  else
    return value(a);
}

// Compares values that are not NaN.
template <class T>
bool holds(const std::string& relation, T a, T b) {
  if (relation == "eq") return a == b;
  if (relation == "ne") return a != b;
  if (relation == "lt" || relation == "lo") return a < b;
  if (relation == "le" || relation == "ls") return a <= b;
  if (relation == "gt" || relation == "hi") return a > b;
  return a >= b;
}
template <class T>
bool compares(const std::string& comparison, T a, T b) {
  const bool is_unordered = is_nan(a) || is_nan(b);
  if (comparison == "num") return !is_unordered;
  if (comparison == "nan") return is_unordered;
  if (is_unordered)
    return comparison.size() == 3;  // comparisons with two-letter names are false for NaN, those with u
                                    // are true
  return holds(comparison.substr(0, 2), number(a), number(b));
}

const std::vector<std::string> kEquality = {"eq", "ne"}, kOrder = {"eq", "ne", "lt", "le", "gt", "ge"},
                               kUnsigned = {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"},
                               kFloat = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                         "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

template <class T>
void expect_setp(const std::string& type, const std::vector<std::string>& comparisons) {
  for (const std::string& each : comparisons) {
    expect_instruction(operation("setp." + each + "." + type, [=](T a, T b) { return compares(each, a, b); }));
  }
}

TEST(Compare, Integers) {
  expect_setp<uint16_t>("b16", kEquality);
  expect_setp<uint32_t>("b32", kEquality);
  expect_setp<uint64_t>("b64", kEquality);
  expect_setp<int16_t>("s16", kOrder);
  expect_setp<int32_t>("s32", kOrder);
  expect_setp<int64_t>("s64", kOrder);
  expect_setp<uint16_t>("u16", kUnsigned);
  expect_setp<uint32_t>("u32", kUnsigned);
  expect_setp<uint64_t>("u64", kUnsigned);
}

TEST(Compare, Floats) {
  expect_setp<float>("f32", kFloat);
  expect_setp<double>("f64", kFloat);
  expect_setp<F16>("f16", kFloat);
  expect_setp<Bf16>("bf16", kFloat);
}

TEST(Compare, FloatsWithoutSubnormals) {
  for (const std::string each : {"eq", "lt", "neu", "geu"}) {
    expect_instruction(operation("setp." + each + ".ftz.f32", [=](float a, float b) {
      return compares(each, flushed(value(a), kF32), flushed(value(b), kF32));
    }));
  }
}

template <class T>
void expect_pairs(const std::string& type) {
  for (const std::string each : {"eq", "lt", "geu", "nan"}) {
    expect_instruction(operation("setp." + each + "." + type + " $d|$e, $1, $2;", [=](Two<T> a, Two<T> b) {
      return std::tuple(compares(each, a.low, b.low), compares(each, a.high, b.high));
    }));
  }
}

TEST(Compare, Pairs) {
  expect_pairs<F16>("f16x2");
  expect_pairs<Bf16>("bf16x2");
}

template <class T>
void expect_combined(const std::string& type, const std::string& comparison) {
  const auto two = [=](auto combine) {
    return [=](T a, T b, bool c) {
      const bool result = compares(comparison, a, b);
      return std::tuple(combine(result, c), combine(!result, c));
    };
  };
  const auto conjunction = [](bool a, bool b) { return a && b; };
  const auto disjunction = [](bool a, bool b) { return a || b; };
  const auto difference = [](bool a, bool b) { return a != b; };
  const auto with_negated = [](bool a, bool b) { return a && !b; };
  const std::string setp = "setp." + comparison;
  expect_instructions({
      operation(setp + ".and." + type + " $d|$e, $1, $2, $3;", two(conjunction)),
      operation(setp + ".or." + type + " $d|$e, $1, $2, $3;", two(disjunction)),
      operation(setp + ".xor." + type + " $d|$e, $1, $2, $3;", two(difference)),
      operation(setp + ".and." + type + " $d|$e, $1, $2, !$3;", two(with_negated)),
      operation(setp + ".and." + type + " $d, $1, $2, $3;",
                [=](T a, T b, bool c) { return compares(comparison, a, b) && c; }),
      operation(setp + "." + type + " $d|$e, $1, $2;",
                [=](T a, T b) { return std::tuple(compares(comparison, a, b), !compares(comparison, a, b)); }),
  });
}

TEST(Compare, Combined) {
  expect_combined<float>("f32", "lt");
  expect_combined<float>("f32", "geu");
  expect_combined<double>("f64", "nan");
  expect_combined<int32_t>("s32", "ge");
  expect_combined<uint64_t>("u64", "hi");
  expect_combined<uint16_t>("b16", "ne");
}

template <class T>
void expect_set(const std::string& type, const std::vector<std::string>& comparisons) {
  for (const std::string& each : comparisons) {
    expect_instructions({
        operation("set." + each + ".u32." + type, [=](T a, T b) { return compares(each, a, b) ? 0xffffffffu : 0u; }),
        operation("set." + each + ".s32." + type, [=](T a, T b) { return compares(each, a, b) ? -1 : 0; }),
        operation("set." + each + ".f32." + type, [=](T a, T b) { return compares(each, a, b) ? 1.0f : 0.0f; }),
        operation("set." + each + ".and.u32." + type,
                  [=](T a, T b, bool c) { return compares(each, a, b) && c ? 0xffffffffu : 0u; }),
    });
  }
}

TEST(Compare, ToRegisters) {
  expect_set<int32_t>("s32", {"eq", "lt"});
  expect_set<uint32_t>("u32", {"ls"});
  expect_set<uint16_t>("u16", {"gt"});
  expect_set<int64_t>("s64", {"ge"});
  expect_set<float>("f32", {"ne", "neu", "lt", "num"});
  expect_set<double>("f64", {"le", "gtu"});
}

template <class T>
void expect_selection(const std::string& type) {
  expect_instructions({
      operation("selp." + type, [](T a, T b, bool c) { return c ? a : b; }),
      operation("slct." + type + ".s32", [](T a, T b, int32_t c) { return c >= 0 ? a : b; }),
      operation("slct." + type + ".f32", [](T a, T b, float c) { return c >= 0 ? a : b; }),
      operation("slct.ftz." + type + ".f32", [](T a, T b, float c) { return flushed(value(c), kF32) >= 0 ? a : b; }),
  });
}

TEST(Compare, Selections) {
  expect_selection<uint16_t>("b16");
  expect_selection<int16_t>("s16");
  expect_selection<uint16_t>("u16");
  expect_selection<uint32_t>("b32");
  expect_selection<int32_t>("s32");
  expect_selection<uint32_t>("u32");
  expect_selection<uint64_t>("b64");
  expect_selection<int64_t>("s64");
  expect_selection<uint64_t>("u64");
  expect_selection<float>("f32");
  expect_selection<double>("f64");
  expect_instructions({
      operation("selp.u32 $d, 1, 0, $1;", [](bool a) { return a ? 1u : 0u; }),
      operation("selp.f32 $d, 0f3F800000, $1, $2;", [](float a, bool b) { return b ? 1.0f : a; }),
      operation("selp.b64 $d, -1, $1, $2;", [](uint64_t a, bool b) { return b ? ~uint64_t{0} : a; }),
  });
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
