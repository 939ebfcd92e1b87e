// SPDX-License-Identifier: Apache-2.0
// The functions of the special function units: approximations on hardware, almost exact here.
#include <cmath>

#include "paper_gpu/ptx/counts.h"
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"
#include "paper_gpu/ptx/rounding.h"

namespace gradmill::paper::ptx {
namespace {

struct Root {
  float operator()(float a) const { return std::sqrt(a); }
};
struct Reciprocal {
  template <class T>
  T operator()(T a) const {
    return T(1) / a;
  }
};
struct ReciprocalRoot {
  template <class T>
  T operator()(T a) const {
    return T(1) / std::sqrt(a);
  }
};

// 2^a to about one unit in the last place: a polynomial for the fraction, and the exponent inserted directly.
struct Exponential {
  float operator()(float a) const {
    const float limited = a < -150.0f ? -150.0f : a > 128.0f ? 128.0f : a;
    const float rounded = std::nearbyint(limited);
    const double x = static_cast<double>(limited - rounded) * 0.69314718055994530942;
    const double power =
        1 + x * (1 + x * (1.0 / 2 + x * (1.0 / 6 + x * (1.0 / 24 + x * (1.0 / 120 + x * (1.0 / 720))))));
    const float whole = a != a ? 0.0f : rounded;
    const auto exponent = static_cast<int64_t>(static_cast<int32_t>(whole)) + 1023;
    const double result = power * std::bit_cast<double>(exponent << 52);
    return a != a ? a : static_cast<float>(result);
  }
};
struct Logarithm {
  float operator()(float a) const { return std::log2(a); }
};
struct Sine {
  float operator()(float a) const { return static_cast<float>(std::sin(static_cast<double>(a))); }
};
struct Cosine {
  float operator()(float a) const { return static_cast<float>(std::cos(static_cast<double>(a))); }
};
struct Tangent {
  float operator()(float a) const { return std::tanh(a); }
};
struct Divide {
  float operator()(float a, float b) const { return a / b; }
};
// For a huge divisor the quotient is zero.
struct FastDivide {
  float operator()(float a, float b) const {
    const float size = std::fabs(b);
    const bool vanishes = size > 0x1p126f && size < INFINITY && std::fabs(a) < INFINITY;
    return vanishes ? std::copysign(0.0f, a) * std::copysign(1.0f, b) : a / b;
  }
};
template <class F>
struct Flushed {
  template <std::same_as<float>... T>
  requires std::is_invocable_v<F, T...>
  float operator()(T... a) const { return flushed(F()(flushed(a)...)); }
};

// Computes the reciprocal or root of the upper half of a double.
template <class F>
struct UpperHalf {
  static double upper(double a) { return std::bit_cast<double>(std::bit_cast<uint64_t>(a) & 0xffffffff00000000u); }
  double operator()(double a) const {
    constexpr Smallest kSmallest{0x1p-1022, 0};
    return upper(flushed(F()(flushed(upper(a), kSmallest)), kSmallest));
  }
};

template <class T, class F>
void special(Warp& warp, const Instruction& i, uint32_t mask) {
  if (Counts* const counts = grid_of(warp).counts) counts->special_functions += uint64_t(std::popcount(mask));
  if constexpr (std::is_invocable_v<F, T, T>) {
    binary<T, F>(warp, i, mask);
  } else {
    unary<T, F>(warp, i, mask);
  }
}
// For functions that call the C library.
template <class F>
void special_by_lane(Warp& warp, const Instruction& i, uint32_t mask) {
  if (Counts* const counts = grid_of(warp).counts) counts->special_functions += uint64_t(std::popcount(mask));
  const auto* const a = warp.at<float>(i.a);
  auto* const d = warp.at<float>(i.d);
  for_each_lane(mask, [&](int lane) { d[lane] = F()(a[lane]); });
}

template <class F>
Handler handler_of(bool flush) {
  return flush ? special<float, Flushed<F>> : special<float, F>;
}
template <class F>
Handler handler_by_lane(bool flush) {
  return flush ? special_by_lane<Flushed<F>> : special_by_lane<F>;
}

Handler handler_of(const Statement& s) {
  const std::string_view base = s.parts[0];
  const bool flush = s.has("ftz");
  if (s.type() == "f64") {
    if (base == "rcp" && flush) return special<double, UpperHalf<Reciprocal>>;
    if (base == "rsqrt" && flush) return special<double, UpperHalf<ReciprocalRoot>>;
    return nullptr;
  }
  if (base == "div") return s.has("approx") ? handler_of<FastDivide>(flush) : handler_of<Divide>(flush);
  if (s.has("full")) return nullptr;
  if (base == "ex2") return handler_of<Exponential>(flush);
  if (base == "lg2") return handler_by_lane<Logarithm>(flush);
  if (base == "sin") return handler_by_lane<Sine>(flush);
  if (base == "cos") return handler_by_lane<Cosine>(flush);
  if (base == "tanh" && !flush) return handler_by_lane<Tangent>(flush);
  if (base == "rsqrt") return handler_of<ReciprocalRoot>(flush);
  if (base == "rcp") return handler_of<Reciprocal>(flush);
  if (base == "sqrt") return handler_of<Root>(flush);
  return nullptr;
}

}  // namespace

bool decode_special_float(Decoder& decoder) {
  const Statement& s = decoder.s;
  if ((s.type() != "f32" && s.type() != "f64") || !(s.has("approx") || s.has("full"))) return false;
  decoder.i.run = handler_of(s);
  if (decoder.i.run == nullptr) return false;
  decoder.expect(s.parts[0] == "div" ? 3 : 2, {"approx", "full", "ftz"});
  decoder.all(s.type() == "f64");
  return true;
}

}  // namespace gradmill::paper::ptx
