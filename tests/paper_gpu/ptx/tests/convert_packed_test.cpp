// SPDX-License-Identifier: Apache-2.0
// Conversions to packed f16, bf16 and fp8, and to tf32.
#include "paper_gpu/ptx/tests/instruction_test.h"

namespace gradmill::paper::ptx::test {
namespace {

using enum Rounding;

// Clamps larger values to the largest finite value; NaN stays.
double finite(double a, const Format& format) {
  return std::isnan(a) ? a : std::min(std::max(a, -format.largest), format.largest);
}

// The first operand is in the upper half.
template <class T>
void expect_packed(const std::string& name) {
  for (const auto& [suffix, rounding] : {std::pair<std::string, Rounding>{".rn", rn}, {".rz", rz}}) {
    const Rounding r = rounding;
    const auto plain = [=](float a) { return round_as<T>(value(a), r); };
    const auto positive = [=](float a) { return Near<T>{relu(rounded(value(a), kFormat<T>, r)), 0}; };
    const auto saturating = [=](float a) { return as<T>(finite(rounded(value(a), kFormat<T>, r), kFormat<T>)); };
    const auto two = [](auto f) { return [=](float a, float b) { return Two<decltype(f(a))>{f(b), f(a)}; }; };
    const std::string cvt = "cvt" + suffix;
    expect_instructions({
        operation(cvt + "." + name + "x2.f32", two(plain)),
        operation(cvt + ".relu." + name + "x2.f32", two(positive)),
        operation(cvt + ".satfinite." + name + "x2.f32", two(saturating)),
        operation(cvt + ".relu." + name + ".f32", positive),
        operation(cvt + ".satfinite." + name + ".f32", saturating),
        operation(cvt + "." + name + ".f32", plain),
    });
  }
}

TEST(ConvertPacked, F16) { expect_packed<F16>("f16"); }
TEST(ConvertPacked, Bf16) { expect_packed<Bf16>("bf16"); }

// The manual does not specify the lower 13 bits.
std::optional<uint32_t> tf32_bits(double a) {
  if (std::isnan(a)) return std::nullopt;
  return std::bit_cast<uint32_t>(as<float>(a));
}
// Ties away from zero.
double rounded_away(double a) {
  if (!std::isfinite(a)) return a;
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(a));
  return value(std::bit_cast<float>((bits + 0x1000) & 0xffffe000));
}

TEST(ConvertPacked, Tf32) {
  const std::string upper = "{.reg .b32 %temp; $cvt %temp, $1; and.b32 $d, %temp, 0xffffe000;}";
  const auto cvt = [&](const std::string& name, auto f) {
    return operation(with(upper, {{"$cvt", name}}), [f](float a) { return tf32_bits(f(value(a))); });
  };
  expect_instructions({
      cvt("cvt.rna.tf32.f32", rounded_away),
      cvt("cvt.rna.satfinite.tf32.f32", [](double a) { return finite(rounded_away(a), kTf32); }),
      cvt("cvt.rn.tf32.f32", [](double a) { return rounded(a, kTf32, rn); }),
      cvt("cvt.rz.tf32.f32", [](double a) { return rounded(a, kTf32, rz); }),
      cvt("cvt.rn.relu.tf32.f32", [](double a) { return relu(rounded(a, kTf32, rn)) + 0.0; }),
  });
}

struct Fp8 {
  std::string name;
  Format format;
  uint32_t (*encoded)(double);
  double (*decoded)(uint8_t);
};
const Fp8 kFp8[] = {
    {"e4m3x2", kE4m3, [](double a) { return uint32_t{encode_e4m3(a)}; }, [](uint8_t a) { return decode_e4m3(a); }},
    {"e5m2x2", kE5m2, [](double a) { return encode(a, 5, 2); }, [](uint8_t a) { return decode(a, 5, 2); }},
};

template <class F>
uint16_t packed(const Fp8& type, double low, double high, F f) {
  const auto byte = [&](double a) { return type.encoded(f(finite(rounded(a, type.format, rn), type.format))); };
  return static_cast<uint16_t>(byte(high) << 8 | byte(low));
}

TEST(ConvertPacked, ToFp8) {
  const auto same = [](double a) { return a; };
  const auto positive = [](double a) { return relu(a) + 0.0; };
  for (const Fp8& type : kFp8) {
    const std::string cvt = "cvt.rn.satfinite";
    expect_instructions({
        operation(cvt + "." + type.name + ".f32",
                  [=](float a, float b) { return packed(type, value(b), value(a), same); }),
        operation(cvt + ".relu." + type.name + ".f32",
                  [=](float a, float b) { return packed(type, value(b), value(a), positive); }),
        operation(cvt + "." + type.name + ".f16x2",
                  [=](Two<F16> a) { return packed(type, value(a.low), value(a.high), same); }),
        operation(cvt + ".relu." + type.name + ".f16x2",
                  [=](Two<F16> a) { return packed(type, value(a.low), value(a.high), positive); }),
    });
  }
}

TEST(ConvertPacked, FromFp8) {
  for (const Fp8& type : kFp8) {
    expect_instructions({
        operation("cvt.rn.f16x2." + type.name,
                  [=](uint16_t a) {
                    return Two<F16>{as<F16>(type.decoded(uint8_t(a))), as<F16>(type.decoded(uint8_t(a >> 8)))};
                  }),
        operation(
            "cvt.rn.relu.f16x2." + type.name,
            [=](uint16_t a) {
              return Two<Near<F16>>{{relu(type.decoded(uint8_t(a))), 0}, {relu(type.decoded(uint8_t(a >> 8))), 0}};
            }),
    });
  }
}

}  // namespace
}  // namespace gradmill::paper::ptx::test
