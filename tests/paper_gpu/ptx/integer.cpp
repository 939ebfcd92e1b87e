// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic, logic and shifts.
#include <algorithm>
#include <limits>

#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"

namespace gradmill::paper::ptx {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
__extension__ using Int128 = __int128;
__extension__ using Unsigned128 = unsigned __int128;
template <class T>
using Twice =
    std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                       std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                          std::conditional_t<std::is_signed_v<T>, Int128, Unsigned128>>>;

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
  }
};
struct Subtract {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
  }
};
struct MultiplyLow {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(uint64_t(Unsigned<T>(a)) * uint64_t(Unsigned<T>(b)));
  }
};
struct MultiplyHigh {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>((static_cast<Twice<T>>(a) * static_cast<Twice<T>>(b)) >> (8 * sizeof(T)));
  }
};
struct MultiplyAddLow {
  template <class T>
  T operator()(T a, T b, T c) const {
    return Add()(MultiplyLow()(a, b), c);
  }
};
struct MultiplyAddHigh {
  template <class T>
  T operator()(T a, T b, T c) const {
    return Add()(MultiplyHigh()(a, b), c);
  }
};
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return Subtract()(T(0), a);
    }
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};
struct Minimum {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};
struct Maximum {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct And {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
};
struct IsZero {
  template <class T>
  T operator()(T a) const {
    return a == 0 ? 1 : 0;
  }
};
struct Negate {
  template <class T>
  T operator()(T a) const {
    return Subtract()(T(0), a);
  }
};
struct Absolute {
  template <class T>
  T operator()(T a) const {
    return a < 0 ? Subtract()(T(0), a) : a;
  }
};

// Clamps to the range of 32 bits.
inline int32_t limited(int64_t value) {
  return static_cast<int32_t>(
      std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
}
struct SaturatedAdd {
  int32_t operator()(int32_t a, int32_t b) const { return limited(int64_t{a} + b); }
};
struct SaturatedSubtract {
  int32_t operator()(int32_t a, int32_t b) const { return limited(int64_t{a} - b); }
};

// Processes each half of a word separately.
template <class T, class F>
struct Halves {
  uint32_t operator()(uint32_t a, uint32_t b) const {
    const auto low = static_cast<uint16_t>(F()(static_cast<T>(a), static_cast<T>(b)));
    const auto high = static_cast<uint16_t>(F()(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
    return low | uint32_t{high} << 16;
  }
};

template <class T, bool kLeft>
void shift(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<SlotOf<T>>(i.a);
  const auto* const b = warp.at<uint32_t>(i.b);
  constexpr uint32_t kBits = 8 * sizeof(T);
  for_lanes(warp.at<SlotOf<T>>(i.d), mask, [&](int lane) {
    const T value = unpack<T>(a[lane]);
    const uint32_t by = b[lane];
    if constexpr (kLeft) {
      return pack<T>(by >= kBits ? T(0) : static_cast<T>(static_cast<Unsigned<T>>(value) << by));
    } else if constexpr (std::is_signed_v<T>) {
      return pack<T>(static_cast<T>(value >> std::min(by, kBits - 1)));
    } else {
      return pack<T>(by >= kBits ? T(0) : static_cast<T>(value >> by));
    }
  });
}

template <class T, bool kAdd>
void multiply_wide(Warp& warp, const Instruction& i, uint32_t mask) {
  using W = Twice<T>;
  const auto *const a = warp.at<SlotOf<T>>(i.a), *const b = warp.at<SlotOf<T>>(i.b);
  const auto* const c = kAdd ? warp.at<SlotOf<W>>(i.c) : nullptr;
  for_lanes(warp.at<SlotOf<W>>(i.d), mask, [&](int lane) {
    const W product = static_cast<W>(static_cast<W>(unpack<T>(a[lane])) * static_cast<W>(unpack<T>(b[lane])));
    if constexpr (kAdd) {
      return pack<W>(Add()(product, unpack<W>(c[lane])));
    } else {
      return pack<W>(product);
    }
  });
}

bool decode_wide(Decoder& decoder) {
  const Statement& s = decoder.s;
  const bool add = s.parts[0] == "mad";
  if ((s.parts[0] != "mul" && !add) || s.parts.at(1) != "wide") return false;
  Instruction& i = decoder.i;
  with_type(s.type(), [&]<class T>(T) {
    if constexpr (std::is_integral_v<T> && (sizeof(T) == 2 || sizeof(T) == 4)) {
      i.run = add ? multiply_wide<T, true> : multiply_wide<T, false>;
    }
    return true;
  });
  const bool wide = bytes_of(s.type()) == 4;
  decoder.expect(add ? 4 : 3, {"wide"});
  decoder.write(kD, decoder.operand(0), wide);
  decoder.read(kA, decoder.operand(1), false);
  decoder.read(kB, decoder.operand(2), false);
  if (add) decoder.read(kC, decoder.operand(3), wide);
  return i.run != nullptr;
}

template <class T>
Handler integer_handler(const Statement& s) {
  const std::string_view base = s.parts[0];
  if (base == "add") return binary<T, Add>;
  if (base == "sub") return binary<T, Subtract>;
  if (base == "mul") return s.has("hi") ? binary<T, MultiplyHigh> : binary<T, MultiplyLow>;
  if (base == "mad") return s.has("hi") ? ternary<T, MultiplyAddHigh> : ternary<T, MultiplyAddLow>;
  if (base == "div") return binary_by_lane<T, Divide>;
  if (base == "rem") return binary_by_lane<T, Remainder>;
  if (base == "min") return binary<T, Minimum>;
  if (base == "max") return binary<T, Maximum>;
  if (base == "and") return binary<T, And>;
  if (base == "or") return binary<T, Or>;
  if (base == "xor") return binary<T, Xor>;
  if (base == "not") return unary<T, Not>;
  if (base == "cnot") return unary<T, IsZero>;
  if (base == "neg") return unary<T, Negate>;
  if constexpr (std::is_signed_v<T>) {
    if (base == "abs") return unary<T, Absolute>;
  }
  return nullptr;
}

template <class T>
Handler halves_handler(std::string_view base) {
  if (base == "add") return binary<uint32_t, Halves<T, Add>>;
  if (base == "sub") return binary<uint32_t, Halves<T, Subtract>>;
  if (base == "min") return binary<uint32_t, Halves<T, Minimum>>;
  if (base == "max") return binary<uint32_t, Halves<T, Maximum>>;
  return nullptr;
}

bool decode_shift(Decoder& decoder) {
  const Statement& s = decoder.s;
  const bool left = s.parts[0] == "shl";
  if (!left && s.parts[0] != "shr") return false;
  Instruction& i = decoder.i;
  with_type(s.type(), [&]<class T>(T) {
    if constexpr (std::is_integral_v<T> && sizeof(T) >= 2) i.run = left ? shift<T, true> : shift<T, false>;
    return true;
  });
  const bool wide = bytes_of(s.type()) == 8;
  decoder.expect(3, {});
  decoder.write(kD, decoder.operand(0), wide);
  decoder.read(kA, decoder.operand(1), wide);
  decoder.read(kB, decoder.operand(2), false);
  return i.run != nullptr;
}

}  // namespace

bool decode_integer(Decoder& decoder) {
  const Statement& s = decoder.s;
  if (s.type() == "pred" || s.parts.size() < 2) return false;
  const std::string_view base = s.parts[0];
  constexpr std::string_view kKnown[] = {"add", "sub", "mul", "mad", "div", "rem",  "min", "max", "and",
                                         "or",  "xor", "not", "neg", "abs", "cnot", "shl", "shr"};
  if (std::find(std::begin(kKnown), std::end(kKnown), base) == std::end(kKnown) || s.has("cc")) return false;
  if (decode_wide(decoder) || decode_shift(decoder)) return true;
  const bool product = base == "mul" || base == "mad", sum = base == "add" || base == "sub";
  const bool one = base == "not" || base == "neg" || base == "abs" || base == "cnot";
  decoder.expect(base == "mad" ? 4 : one ? 2 : 3, {product ? "lo" : "", product ? "hi" : "", sum ? "sat" : ""});
  Instruction& i = decoder.i;
  if (s.type() == "u16x2" || s.type() == "s16x2") {
    i.run = s.type() == "u16x2" ? halves_handler<uint16_t>(base) : halves_handler<int16_t>(base);
  } else if (s.has("sat")) {
    if (s.type() == "s32") i.run = base == "add" ? binary<int32_t, SaturatedAdd> : binary<int32_t, SaturatedSubtract>;
  } else {
    with_type(s.type(), [&]<class T>(T) {
      if constexpr (std::is_integral_v<T> && sizeof(T) >= 2) i.run = integer_handler<T>(s);
      return true;
    });
  }
  if (i.run == nullptr) return false;
  decoder.all(bytes_of(s.type()) == 8);
  return true;
}

}  // namespace gradmill::paper::ptx
