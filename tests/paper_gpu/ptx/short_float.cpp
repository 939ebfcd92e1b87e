// SPDX-License-Identifier: Apache-2.0
// Arithmetic of 16-bit floats, single or in pairs. Each operation is rounded once.
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/short_floats.h"

namespace gradmill::paper::ptx {
namespace {

// Flags.
constexpr uint8_t kRelu = 1, kWithNan = 2, kFlush = 4, kSaturate = 8, kOfSizes = 16;

// Results that are exact, or whose last bit records that something was lost.
struct Add {
  static double of(double a, double b, double) { return odd_sum(a, b); }
};
struct Subtract {
  static double of(double a, double b, double) { return odd_sum(a, -b); }
};
struct Multiply {
  static double of(double a, double b, double) { return a * b; }
};
struct MultiplyAdd {
  static double of(double a, double b, double c) { return odd_sum(a * b, c); }
};
struct Minimum {
  static double of(double a, double b, double) {
    return a != a ? b : b != b ? a : a < b || (a == b && std::signbit(a)) ? a : b;
  }
};
struct Maximum {
  static double of(double a, double b, double) {
    return a != a ? b : b != b ? a : a > b || (a == b && !std::signbit(a)) ? a : b;
  }
};
struct Negate {
  static double of(double a, double, double) { return -a; }
};
struct Absolute {
  static double of(double a, double, double) { return std::fabs(a); }
};
struct Exponential {
  static double of(double a, double, double) { return std::exp2(a); }
};
struct FlushedExponential {  // for bf16, which has the exponents of fp32
  static double of(double a, double, double) { return flushed(std::exp2(a), kSmallestFloat); }
};
struct Tangent {
  static double of(double a, double, double) { return std::tanh(a); }
};

template <class T>
double number_of(uint32_t bits) {
  return static_cast<double>(unpack<T>(bits & 0xffff).number());
}

template <class T, class F>
struct Plain {
  static uint32_t of(uint8_t, uint32_t a, uint32_t b, uint32_t c) {
    return T::rounded(odd_float(F::of(number_of<T>(a), number_of<T>(b), number_of<T>(c))));
  }
};
// fp32 is accurate enough for these to be rounded once more.
struct FastAdd {
  static float of(float a, float b) { return a + b; }
};
struct FastSubtract {
  static float of(float a, float b) { return a - b; }
};
struct FastMultiply {
  static float of(float a, float b) { return a * b; }
};
template <class T, class F>
struct Fast {
  static uint32_t of(uint8_t, uint32_t a, uint32_t b, uint32_t) {
    return T::rounded(F::of(unpack<T>(a & 0xffff).number(), unpack<T>(b & 0xffff).number()));
  }
};
template <class T, class F>
struct Modified {
  static uint32_t of(uint8_t flags, uint32_t a, uint32_t b, uint32_t c) {
    const auto operand = [&](uint32_t bits) {
      const double value = flags & kFlush ? flushed(number_of<T>(bits), kSmallestHalf) : number_of<T>(bits);
      return flags & kOfSizes ? std::fabs(value) : value;
    };
    const double x = operand(a), y = operand(b), z = operand(c);
    double result = F::of(x, y, z);
    if ((flags & kWithNan) && (x != x || y != y)) result = NAN;
    if ((flags & kFlush) && is_tiny<Rounding::nearest>(result, kSmallestHalf)) result = std::copysign(0.0, result);
    if ((flags & kRelu) && result < 0) result = 0;
    if (flags & kSaturate) result = saturated(result);
    if ((flags & kOfSizes) && ((a ^ b) & 0x8000)) result = -result;
    return T::rounded(odd_float(result));
  }
};

template <class F, bool kPair>
void apply(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<uint32_t>(i.a);
  const auto* const b = i.b == kNoSlot ? a : warp.at<uint32_t>(i.b);
  const auto* const c = i.c == kNoSlot ? a : warp.at<uint32_t>(i.c);
  const uint8_t flags = i.flags;
  // One half after the other, because compilers vectorise short loops.
  alignas(64) uint32_t low[kLanes], high[kLanes] = {};
  for (int lane = 0; lane < kLanes; ++lane) low[lane] = F::of(flags, a[lane], b[lane], c[lane]);
  for (int lane = 0; lane < kLanes && kPair; ++lane) {
    high[lane] = F::of(flags, a[lane] >> 16, b[lane] >> 16, c[lane] >> 16) << 16;
  }
  for_lanes(warp.at<uint32_t>(i.d), mask, [&](int lane) { return low[lane] | high[lane]; });
}

template <class T, class F, bool kPair>
Handler handler_of(uint8_t flags) {
  return flags != 0 ? apply<Modified<T, F>, kPair> : apply<Plain<T, F>, kPair>;
}

template <class T, bool kPair>
Handler arithmetic_handler(std::string_view base, uint8_t flags) {
  constexpr bool kHalf = std::is_same_v<T, Half>;
  if (base == "add") return flags ? handler_of<T, Add, kPair>(flags) : apply<Fast<T, FastAdd>, kPair>;
  if (base == "sub") return flags ? handler_of<T, Subtract, kPair>(flags) : apply<Fast<T, FastSubtract>, kPair>;
  // Small products of bf16 would be rounded twice.
  if (base == "mul" && kHalf && flags == 0) return apply<Fast<T, FastMultiply>, kPair>;
  if (base == "mul") return handler_of<T, Multiply, kPair>(flags);
  if (base == "fma") return handler_of<T, MultiplyAdd, kPair>(flags);
  return nullptr;
}
template <class T, bool kPair>
Handler other_handler(std::string_view base, uint8_t flags) {
  if (base == "min") return handler_of<T, Minimum, kPair>(flags);
  if (base == "max") return handler_of<T, Maximum, kPair>(flags);
  if (base == "neg") return handler_of<T, Negate, kPair>(flags);
  if (base == "abs") return handler_of<T, Absolute, kPair>(flags);
  constexpr bool kHalf = std::is_same_v<T, Half>;
  if (base == "ex2") return apply<Plain<T, std::conditional_t<kHalf, Exponential, FlushedExponential>>, kPair>;
  if (base == "tanh") return apply<Plain<T, Tangent>, kPair>;
  return nullptr;
}

template <class T>
Handler handler_of_name(Decoder& decoder, bool pair) {
  const std::string_view base = decoder.s.parts[0];
  const uint8_t flags = decoder.i.flags;
  const Handler found = pair ? arithmetic_handler<T, true>(base, flags) : arithmetic_handler<T, false>(base, flags);
  if (found != nullptr) {
    decoder.expect(base == "fma" ? 4 : 3, {"rn", "ftz", "sat", "relu"});
    return found;
  }
  if (base == "min" || base == "max") decoder.expect(3, {"ftz", "NaN", "xorsign", "abs"});
  if (base == "neg" || base == "abs") decoder.expect(2, {"ftz"});
  if (base == "ex2" || base == "tanh") decoder.expect(2, {"approx", "ftz"});
  return pair ? other_handler<T, true>(base, flags) : other_handler<T, false>(base, flags);
}

}  // namespace

bool decode_short_float(Decoder& decoder) {
  const Statement& s = decoder.s;
  const std::string_view type = s.type(), base = s.parts[0];
  const bool pair = type == "f16x2" || type == "bf16x2", half = type[0] == 'f';
  if (!pair && type != "f16" && type != "bf16") return false;
  // fp16 can be flushed in everything except powers; powers of bf16 are always flushed.
  if (s.has("ftz") ? half == (base == "ex2") : base == "ex2" && !half) return false;
  Instruction& i = decoder.i;
  if (s.has("relu")) i.flags |= kRelu;
  if (s.has("NaN")) i.flags |= kWithNan;
  if (s.has("ftz") && half) i.flags |= kFlush;
  if (s.has("sat")) i.flags |= kSaturate;
  if (s.has("xorsign")) i.flags |= kOfSizes;
  i.run = half ? handler_of_name<Half>(decoder, pair) : handler_of_name<Brain>(decoder, pair);
  if (i.run == nullptr) return false;
  decoder.all(false);
  return true;
}

}  // namespace gradmill::paper::ptx
