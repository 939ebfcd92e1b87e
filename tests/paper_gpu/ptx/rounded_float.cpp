// SPDX-License-Identifier: Apache-2.0
// fp32 arithmetic with other roundings than to nearest, with flushing or saturation: computed in fp64 and rounded once.
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"
#include "paper_gpu/ptx/rounding.h"

namespace gradmill::paper::ptx {
namespace {

// Flags.
constexpr uint8_t kFlush = 1, kSaturate = 2;

// Results that are exact, or whose last bit records that something was lost.
struct Add {
  template <Rounding kRounding>
  static double of(double a, double b, double) {
    return odd_sum<kRounding>(a, b);
  }
};
struct Subtract {
  template <Rounding kRounding>
  static double of(double a, double b, double) {
    return odd_sum<kRounding>(a, -b);
  }
};
struct Multiply {
  template <Rounding>
  static double of(double a, double b, double) {
    return a * b;
  }
};
struct MultiplyAdd {
  template <Rounding kRounding>
  static double of(double a, double b, double c) {
    return odd_sum<kRounding>(a * b, c);
  }
};
struct Divide {
  template <Rounding>
  static double of(double a, double b, double) {
    const double quotient = a / b, rest = std::fma(-quotient, b, a);
    return odd(quotient, b < 0 ? -rest : rest);
  }
};
struct Reciprocal {
  template <Rounding kRounding>
  static double of(double a, double, double) {
    return Divide::of<kRounding>(1.0, a, 0.0);
  }
};
struct Root {
  template <Rounding>
  static double of(double a, double, double) {
    const double root = std::sqrt(a);
    return odd(root, std::fma(-root, root, a));
  }
};

template <class F, Rounding kRounding>
void rounded(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<float>(i.a);
  const auto *const b = i.b == kNoSlot ? a : warp.at<float>(i.b), *const c = i.c == kNoSlot ? a : warp.at<float>(i.c);
  const bool flush = i.flags & kFlush, saturate = i.flags & kSaturate;
  const auto operand = [&](float value) { return static_cast<double>(flush ? flushed(value) : value); };
  for_lanes(warp.at<float>(i.d), mask, [&](int lane) {
    const double exact = F::template of<kRounding>(operand(a[lane]), operand(b[lane]), operand(c[lane]));
    float result = narrowed<kRounding>(exact);
    if (flush && is_tiny<kRounding>(exact, kSmallestFloat)) result = static_cast<float>(std::copysign(0.0, exact));
    return saturate ? saturated(result) : result;
  });
}

template <class F>
Handler handler_of(Rounding rounding) {
  switch (rounding) {
    case Rounding::zero:
      return rounded<F, Rounding::zero>;
    case Rounding::down:
      return rounded<F, Rounding::down>;
    case Rounding::up:
      return rounded<F, Rounding::up>;
    default:
      return rounded<F, Rounding::nearest>;
  }
}

}  // namespace

bool decode_rounded_float(Decoder& decoder) {
  const Statement& s = decoder.s;
  if (s.type() != "f32" || s.has("approx") || s.has("full")) return false;
  const Rounding rounding = rounding_of(s.parts);
  if (rounding == Rounding::nearest && !s.has("ftz") && !s.has("sat")) return false;
  Instruction& i = decoder.i;
  const std::string_view base = s.parts[0];
  size_t operands = 3;
  if (base == "add") i.run = handler_of<Add>(rounding);
  if (base == "sub") i.run = handler_of<Subtract>(rounding);
  if (base == "mul") i.run = handler_of<Multiply>(rounding);
  if (base == "div") i.run = handler_of<Divide>(rounding);
  if (base == "fma") i.run = handler_of<MultiplyAdd>(rounding), operands = 4;
  if (base == "rcp") i.run = handler_of<Reciprocal>(rounding), operands = 2;
  if (base == "sqrt") i.run = handler_of<Root>(rounding), operands = 2;
  if (i.run == nullptr) return false;
  decoder.expect(operands, {"rn", "rz", "rm", "rp", "ftz", "sat"});
  if (s.has("ftz")) i.flags |= kFlush;
  if (s.has("sat")) i.flags |= kSaturate;
  decoder.all(false);
  return true;
}

}  // namespace gradmill::paper::ptx
