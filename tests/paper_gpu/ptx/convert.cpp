// SPDX-License-Identifier: Apache-2.0
// Conversions between numbers. Narrow integers are extended to the whole register.
#include "paper_gpu/ptx/conversions.h"
#include "paper_gpu/ptx/decode.h"

namespace gradmill::paper::ptx {
namespace {

__extension__ using Wide = __int128;

template <class T>
SlotOf<T> extended(T value) {
  if constexpr (std::is_integral_v<T> && sizeof(T) < 4) {
    return static_cast<uint32_t>(static_cast<int32_t>(value));
  } else {
    return pack<T>(value);
  }
}

// --- to integers ---

template <class To, class From>
void between_integers(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<SlotOf<From>>(i.a);
  for_lanes(warp.at<SlotOf<To>>(i.d), mask,
            [&](int lane) { return extended<To>(static_cast<To>(unpack<From>(a[lane]))); });
}
template <class To, class From>
void saturate_integer(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<SlotOf<From>>(i.a);
  auto* const d = warp.at<SlotOf<To>>(i.d);
  for_each_lane(mask, [&](int lane) {
    const Wide value = unpack<From>(a[lane]);
    const Wide low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
    d[lane] = extended<To>(static_cast<To>(std::clamp(value, low, high)));
  });
}

// A NaN becomes 0, or the highest bit if either type has 64 bits.
template <class To, class From>
void float_to_integer(Warp& warp, const Instruction& i, uint32_t mask) {
  using Limits = std::numeric_limits<To>;
  constexpr bool kWide = sizeof(To) == 8 || std::is_same_v<From, double>;
  constexpr To kOfNan = kWide ? static_cast<To>(uint64_t{1} << (8 * sizeof(To) - 1)) : To(0);
  constexpr double kLow = static_cast<double>(Limits::min());
  const double high = std::ldexp(1.0, Limits::digits);
  const auto* const a = warp.at<SlotOf<From>>(i.a);
  auto* const d = warp.at<SlotOf<To>>(i.d);
  for_each_lane(mask, [&](int lane) {
    double value = exact_of<From>(a[lane]);
    if (i.flags & kFlush) value = flushed(value, kSmallestFloat);
    value = whole(value, static_cast<Whole>(i.kind));
    const To result = value != value  ? kOfNan
                      : value <= kLow ? Limits::min()
                      : value >= high ? Limits::max()
                                      : static_cast<To>(value);
    d[lane] = extended<To>(result);
  });
}

// --- to floats ---

template <class To, class From>
void to_float(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<SlotOf<From>>(i.a);
  for_lanes(warp.at<SlotOf<To>>(i.d), mask, [&](int lane) { return pack<To>(static_cast<To>(unpack<From>(a[lane]))); });
}
template <class From>
void widen(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<uint32_t>(i.a);
  for_lanes(warp.at<float>(i.d), mask, [&](int lane) { return unpack<From>(a[lane]).number(); });
}
template <class To>
void shorten(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<float>(i.a);
  for_lanes(warp.at<uint32_t>(i.d), mask, [&](int lane) { return uint32_t{To::rounded(a[lane])}; });
}
// cvt.sat.f32.f32, which expf and similar functions use.
void saturate(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<float>(i.a);
  for_lanes(warp.at<float>(i.d), mask, [&](int lane) { return saturated(a[lane]); });
}

template <Rounding kRounding>
float single(double exact, uint8_t flags) {
  if ((flags & kFlush) && is_tiny<kRounding>(exact, kSmallestFloat))
    return static_cast<float>(std::copysign(0.0, exact));
  return narrowed<kRounding>(exact);
}
float single(double exact, const Instruction& i) {
  switch (rounding_of(i)) {
    case Rounding::zero:
      return single<Rounding::zero>(exact, i.flags);
    case Rounding::down:
      return single<Rounding::down>(exact, i.flags);
    case Rounding::up:
      return single<Rounding::up>(exact, i.flags);
    default:
      return single<Rounding::nearest>(exact, i.flags);
  }
}

// For values that no double can hold, in the direction of the rounding mode.
template <class From>
double double_of(From value, Rounding rounding) {
  const auto nearest = static_cast<double>(value);
  const Wide too_much = static_cast<Wide>(nearest) - static_cast<Wide>(value);
  const bool down = rounding == Rounding::down || (rounding == Rounding::zero && value > 0);
  const bool up = rounding == Rounding::up || (rounding == Rounding::zero && value < 0);
  if (down && too_much > 0) return std::nextafter(nearest, -INFINITY);
  if (up && too_much < 0) return std::nextafter(nearest, INFINITY);
  return nearest;
}

// With all modifiers.
template <class To, class From>
void to_float_as_told(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<SlotOf<From>>(i.a);
  auto* const d = warp.at<SlotOf<To>>(i.d);
  for_each_lane(mask, [&](int lane) {
    double exact = exact_of<From>(a[lane]);
    if (std::is_same_v<From, float> && (i.flags & kFlush)) exact = flushed(exact, kSmallestFloat);
    exact = limited(whole(exact, static_cast<Whole>(i.kind)), i.flags);
    if constexpr (std::is_same_v<To, float>) {
      d[lane] = pack<float>(single(exact, i));
    } else if constexpr (!std::is_same_v<To, double>) {
      d[lane] = shortened<FormatOf<To>>(exact, i);
    } else if constexpr (std::is_integral_v<From>) {
      d[lane] = pack<double>(double_of(unpack<From>(a[lane]), rounding_of(i)));
    } else {
      d[lane] = pack<double>(exact);
    }
  });
}

// --- decoding ---

template <class T>
inline constexpr bool kShort = std::is_same_v<T, Half> || std::is_same_v<T, Brain>;

template <class To, class From>
Handler handler_of(const Instruction& i) {
  const bool plain = i.kind == 0 && i.offset == 0 && i.flags == 0;
  constexpr bool kFromInteger = std::is_integral_v<From>,
                 kSingles = std::is_same_v<To, float> && std::is_same_v<From, float>;
  if constexpr (std::is_integral_v<To> && kFromInteger) {
    return i.flags & kSaturate ? saturate_integer<To, From> : between_integers<To, From>;
  } else if constexpr (std::is_integral_v<To>) {
    return float_to_integer<To, From>;
  } else {
    if constexpr (kSingles) {
      if (i.kind == 0 && i.flags == kSaturate) return saturate;
    }
    if (!plain) return to_float_as_told<To, From>;
    if constexpr (std::is_same_v<To, float> && kShort<From>) {
      return widen<From>;
    } else if constexpr (kShort<To> && std::is_same_v<From, float>) {
      return shorten<To>;
    } else if constexpr (kShort<To> || kShort<From>) {
      return to_float_as_told<To, From>;
    } else {
      return to_float<To, From>;
    }
  }
}

void read_modifier(std::string_view part, Instruction& i) {
  constexpr std::string_view kWhole[] = {"", "rni", "rzi", "rmi", "rpi"};
  const auto* const found = std::find(std::begin(kWhole) + 1, std::end(kWhole), part);
  if (found != std::end(kWhole)) {
    i.kind = static_cast<uint8_t>(found - kWhole);
  } else if (part == "sat") {
    i.flags |= kSaturate;
  } else if (part == "satfinite") {
    i.flags |= kFinite;
  } else if (part == "ftz") {
    i.flags |= kFlush;
  } else if (part == "relu") {
    i.flags |= kRelu;
  } else if (part != "rn" && part != "rz" && part != "rm" && part != "rp" && part != "rna") {
    throw std::runtime_error("the paper GPU does not know a modifier of this conversion");
  }
}

// Throws for combinations that hardware does not have, and for those that were never tested.
void expect_modifiers(const Statement& s, Instruction& i, std::string_view to, std::string_view from) {
  const bool to_short = to == "f16" || to == "bf16", singles = to == "f32" || from == "f32";
  const bool bad = ((i.flags & (kRelu | kFinite)) && (!to_short || from != "f32")) || s.has("rna") ||
                   ((i.flags & kFlush) && (!singles || to == "bf16")) || s.operands.size() != 2;
  if (bad) throw std::runtime_error("the paper GPU does not know a modifier of this conversion");
  // Operands of fp16 results are not flushed.
  if (to == "f16") i.flags &= static_cast<uint8_t>(~kFlush);
}

// The lower part of a 64-bit register.
template <class To, class From>
void convert_lower(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<uint64_t>(i.a);
  for_lanes(warp.at<SlotOf<To>>(i.d), mask,
            [&](int lane) { return pack<To>(static_cast<To>(static_cast<From>(a[lane]))); });
}

bool decode_numbers(Decoder& decoder, std::string_view to, std::string_view from) {
  Instruction& i = decoder.i;
  expect_modifiers(decoder.s, i, to, from);
  bool to_wide = false, from_wide = false;
  Handler lower = nullptr;
  with_number_type(to, [&]<class T>(T) {
    return with_number_type(from, [&]<class S>(S) {
      i.run = handler_of<T, S>(i);
      to_wide = sizeof(T) == 8, from_wide = sizeof(S) == 8;
      if constexpr (std::is_integral_v<T> && std::is_integral_v<S> && sizeof(S) < 8) lower = convert_lower<T, S>;
      return true;
    });
  });
  if (i.run == nullptr) return false;
  decoder.write(kD, decoder.operand(0), to_wide);
  if (!from_wide && decoder.is_wide(decoder.operand(1))) {
    if (lower == nullptr || i.flags != 0) throw std::runtime_error("a conversion of a wider register is not known");
    i.run = lower;
    from_wide = true;
  }
  decoder.read(kA, decoder.operand(1), from_wide);
  return true;
}

}  // namespace

bool decode_convert(Decoder& decoder) {
  const Statement& s = decoder.s;
  if (s.parts[0] != "cvt" || s.parts.size() < 3) return false;
  const std::string_view to = s.parts[s.parts.size() - 2], from = s.parts.back();
  for (size_t n = 1; n + 2 < s.parts.size(); ++n) read_modifier(s.parts[n], decoder.i);
  decoder.i.offset = static_cast<int64_t>(rounding_of(s.parts));
  return is_packed(to) || is_packed(from) ? decode_packed_convert(decoder) : decode_numbers(decoder, to, from);
}

}  // namespace gradmill::paper::ptx
