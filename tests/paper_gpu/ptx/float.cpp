// SPDX-License-Identifier: Apache-2.0
// Arithmetic of fp32 and fp64, rounded to nearest; for fp64 also with the other roundings. Other fp32 operations are in
// rounded_float.cpp and special_float.cpp.
#include <cfenv>
#include <cmath>

#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"
#include "paper_gpu/ptx/rounding.h"

namespace gradmill::paper::ptx {
namespace {

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct Subtract {
  template <class T>
  T operator()(T a, T b) const {
    return a - b;
  }
};
struct Multiply {
  template <class T>
  T operator()(T a, T b) const {
    return a * b;
  }
};
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    return a / b;
  }
};
struct MultiplyAdd {
  template <class T>
  T operator()(T a, T b, T c) const {
    return std::fma(a, b, c);
  }
};
struct Minimum {  // returns the number if the other is a NaN; -0 is less than 0
  template <class T>
  T operator()(T a, T b) const {
    if (a != a) return b;
    if (b != b) return a;
    return a < b || (a == b && std::signbit(a)) ? a : b;
  }
};
struct Maximum {
  template <class T>
  T operator()(T a, T b) const {
    if (a != a) return b;
    if (b != b) return a;
    return a > b || (a == b && !std::signbit(a)) ? a : b;
  }
};
template <class F>
struct OrNan {
  template <class T>
  T operator()(T a, T b) const {
    return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : F()(a, b);
  }
};
// min and max with .xorsign.abs: compares magnitudes; the sign is that of the product.
template <class F>
struct OfSizes {
  template <class T>
  T operator()(T a, T b) const {
    const T size = F()(std::fabs(a), std::fabs(b));
    return std::signbit(a) != std::signbit(b) ? -size : size;
  }
};
struct Negate {
  template <class T>
  T operator()(T a) const {
    return -a;
  }
};
struct Absolute {
  template <class T>
  T operator()(T a) const {
    return std::fabs(a);
  }
};
struct CopySign {  // the sign of a, the magnitude of b
  template <class T>
  T operator()(T a, T b) const {
    return std::copysign(b, a);
  }
};
struct Root {
  template <class T>
  T operator()(T a) const {
    return std::sqrt(a);
  }
};
struct Reciprocal {
  template <class T>
  T operator()(T a) const {
    return T(1) / a;
  }
};
// For exact operations.
template <class F>
struct Flushed {
  template <std::same_as<float>... T>
  requires std::is_invocable_v<F, T...>
  float operator()(T... a) const { return flushed(F()(flushed(a)...)); }
};

// The C library's constant for the rounding in `offset`.
int host_rounding(Rounding rounding) {
  return rounding == Rounding::zero   ? FE_TOWARDZERO
         : rounding == Rounding::down ? FE_DOWNWARD
         : rounding == Rounding::up   ? FE_UPWARD
                                      : FE_TONEAREST;
}
template <class F>
[[gnu::optimize("rounding-math")]] void directed(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<double>(i.a);
  const auto *const b = i.b == kNoSlot ? a : warp.at<double>(i.b), *const c = i.c == kNoSlot ? a : warp.at<double>(i.c);
  auto* const d = warp.at<double>(i.d);
  const int before = std::fegetround();
  std::fesetround(static_cast<int>(i.offset));
  for_each_lane(mask, [&](int lane) {
    volatile double x = a[lane], y = b[lane], z = c[lane];
    volatile double result;
    if constexpr (std::is_invocable_v<F, double, double, double>) {
      result = F()(double(x), double(y), double(z));
    } else if constexpr (std::is_invocable_v<F, double, double>) {
      result = F()(double(x), double(y));
    } else {
      result = F()(double(x));
    }
    d[lane] = result;
  });
  std::fesetround(before);
}

template <class T, class F>
Handler plain_handler(Decoder& decoder) {
  constexpr bool kTernary = std::is_invocable_v<F, T, T, T>, kBinary = std::is_invocable_v<F, T, T>;
  decoder.expect(kTernary ? 4 : kBinary ? 3 : 2, {"rn", "rz", "rm", "rp", "ftz", "NaN", "xorsign", "abs"});
  if constexpr (kTernary) {
    return ternary<T, F>;
  } else if constexpr (kBinary) {
    return binary<T, F>;
  } else {
    return unary<T, F>;
  }
}

template <class T, class F>
Handler rounded_handler(Decoder& decoder) {
  const Handler nearest = plain_handler<T, F>(decoder);
  const Rounding rounding = rounding_of(decoder.s.parts);
  if (rounding == Rounding::nearest) return decoder.s.has("ftz") ? nullptr : nearest;
  decoder.i.offset = host_rounding(rounding);
  return std::is_same_v<T, double> ? directed<F> : nullptr;
}

template <class T, class F>
Handler exact_handler(Decoder& decoder) {
  if (!decoder.s.has("ftz")) return plain_handler<T, F>(decoder);
  if constexpr (std::is_same_v<T, float>) {
    return plain_handler<T, Flushed<F>>(decoder);
  } else {
    return nullptr;
  }
}
template <class T, class F>
Handler extreme_handler(Decoder& decoder) {
  const bool of_sizes = decoder.s.has("xorsign");
  if (decoder.s.has("NaN")) {
    return of_sizes ? exact_handler<T, OfSizes<OrNan<F>>>(decoder) : exact_handler<T, OrNan<F>>(decoder);
  }
  return of_sizes ? exact_handler<T, OfSizes<F>>(decoder) : exact_handler<T, F>(decoder);
}

template <class T>
Handler float_handler(Decoder& decoder) {
  const std::string_view base = decoder.s.parts[0];
  if (base == "add") return rounded_handler<T, Add>(decoder);
  if (base == "sub") return rounded_handler<T, Subtract>(decoder);
  if (base == "mul") return rounded_handler<T, Multiply>(decoder);
  if (base == "div") return rounded_handler<T, Divide>(decoder);
  if (base == "fma" || base == "mad") return rounded_handler<T, MultiplyAdd>(decoder);
  if (base == "sqrt") return rounded_handler<T, Root>(decoder);
  if (base == "rcp") return rounded_handler<T, Reciprocal>(decoder);
  if (base == "min") return extreme_handler<T, Minimum>(decoder);
  if (base == "max") return extreme_handler<T, Maximum>(decoder);
  if (base == "neg") return exact_handler<T, Negate>(decoder);
  if (base == "abs") return exact_handler<T, Absolute>(decoder);
  if (base == "copysign") return exact_handler<T, CopySign>(decoder);
  return nullptr;
}

// Classes of numbers.
enum Test : uint8_t { kFinite, kInfinite, kNumber, kNotANumber, kNormal, kSubnormal };
template <class T>
void test_number(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<T>(i.a);
  uint32_t result = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const T value = a[lane];
    const bool answers[] = {bool(std::isfinite(value)),
                            bool(std::isinf(value)),
                            value == value,
                            value != value,
                            std::isnormal(value) || value == 0,
                            std::fpclassify(value) == FP_SUBNORMAL};
    result |= static_cast<uint32_t>(answers[i.kind]) << lane;
  }
  set_predicate(warp, i.d, mask, result);
}

bool decode_test(Decoder& decoder) {
  const Statement& s = decoder.s;
  constexpr std::string_view kNames[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
  const auto* const name = std::find(std::begin(kNames), std::end(kNames), s.parts.at(1));
  if (name == std::end(kNames)) return false;
  const bool wide = s.type() == "f64";
  decoder.i.kind = static_cast<uint8_t>(name - kNames);
  decoder.i.run = wide ? test_number<double> : test_number<float>;
  decoder.predicate(decoder.i.d, decoder.operand(0));
  decoder.read(kA, decoder.operand(1), wide);
  return true;
}

}  // namespace

bool decode_float(Decoder& decoder) {
  const std::string_view type = decoder.s.type();
  if (type != "f32" && type != "f64") return false;
  if (decoder.s.parts[0] == "testp") return decode_test(decoder);
  decoder.i.run = type == "f32" ? float_handler<float>(decoder) : float_handler<double>(decoder);
  if (decoder.i.run == nullptr) return false;
  decoder.all(type == "f64");
  return true;
}

}  // namespace gradmill::paper::ptx
