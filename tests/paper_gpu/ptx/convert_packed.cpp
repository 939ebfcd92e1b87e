// SPDX-License-Identifier: Apache-2.0
// Conversions of two values at a time, to and from fp8, and to tf32.
#include <fmt/format.h>

#include "paper_gpu/ptx/conversions.h"
#include "paper_gpu/ptx/decode.h"

namespace gradmill::paper::ptx {
namespace {

// a becomes the upper half.
template <class T>
void shorten_two(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto *const a = warp.at<float>(i.a), *const b = warp.at<float>(i.b);
  for_lanes(warp.at<uint32_t>(i.d), mask,
            [&](int lane) { return T::rounded(b[lane]) | uint32_t{T::rounded(a[lane])} << 16; });
}
// Conversions to formats of kBits bits, with all modifiers.
template <class F>
void narrow_two(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto *const a = warp.at<float>(i.a), *const b = warp.at<float>(i.b);
  auto* const d = warp.at<uint32_t>(i.d);
  for_each_lane(mask, [&](int lane) {
    d[lane] = shortened<F>(static_cast<double>(b[lane]), i) | shortened<F>(static_cast<double>(a[lane]), i) << F::kBits;
  });
}
template <class F>
void narrow_halves(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<uint32_t>(i.a);
  auto* const d = warp.at<uint32_t>(i.d);
  const auto one = [&](uint32_t bits) { return shortened<F>(static_cast<double>(unpack<Half>(bits).number()), i); };
  for_each_lane(mask, [&](int lane) { d[lane] = one(a[lane] & 0xffff) | one(a[lane] >> 16) << 8; });
}
template <class F>
void widen_to_halves(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<uint32_t>(i.a);
  auto* const d = warp.at<uint32_t>(i.d);
  const auto one = [&](uint32_t bits) {
    return uint32_t{Half::rounded(static_cast<float>(limited(static_cast<double>(F::widen(bits & 0xff)), i.flags)))};
  };
  for_each_lane(mask, [&](int lane) { d[lane] = one(a[lane]) | one(a[lane] >> 8) << 16; });
}

// 19 bits of fp32, 10 of them mantissa.
using TensorFormat = Format<8, 10, true>;
constexpr int kBelowTensorFloat = 13;
template <bool kTiesAway>
void narrow_to_tf32(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<uint32_t>(i.a);
  for_lanes(warp.at<uint32_t>(i.d), mask, [&](int lane) {
    const uint32_t bits = a[lane];
    const uint32_t half = kTiesAway ? 0x1000u : 0xfffu + (bits >> kBelowTensorFloat & 1);
    const bool finite = (bits & 0x7f800000u) != 0x7f800000u, is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return is_nan ? 0x7fffffffu : finite ? (bits + half) & ~0x1fffu : bits;
  });
}
void narrow_to_tf32_as_told(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<float>(i.a);
  auto* const d = warp.at<uint32_t>(i.d);
  for_each_lane(
      mask, [&](int lane) { d[lane] = shortened<TensorFormat>(static_cast<double>(a[lane]), i) << kBelowTensorFloat; });
}

bool is_8_bit(std::string_view type) { return type == "e4m3x2" || type == "e5m2x2"; }

Handler to_tf32(const Instruction& i) {
  const bool away = rounding_of(i) == Rounding::away;
  if (i.flags != 0 || (!away && rounding_of(i) != Rounding::nearest)) return narrow_to_tf32_as_told;
  return away ? narrow_to_tf32<true> : narrow_to_tf32<false>;
}

Handler handler_of(const Instruction& i, std::string_view to, std::string_view from) {
  const bool e4m3 = to == "e4m3x2" || from == "e4m3x2", plain = i.flags == 0 && i.offset == 0;
  if (to == "tf32") return from == "f32" ? to_tf32(i) : nullptr;
  if (to == "f16x2" && from == "f32") return plain ? shorten_two<Half> : narrow_two<HalfFormat>;
  if (to == "bf16x2" && from == "f32") return plain ? shorten_two<Brain> : narrow_two<BrainFormat>;
  if (is_8_bit(to) && from == "f32") return e4m3 ? narrow_two<E4M3> : narrow_two<E5M2>;
  if (is_8_bit(to) && from == "f16x2") return e4m3 ? narrow_halves<E4M3> : narrow_halves<E5M2>;
  if (to == "f16x2" && is_8_bit(from)) return e4m3 ? widen_to_halves<E4M3> : widen_to_halves<E5M2>;
  return nullptr;
}

}  // namespace

bool is_packed(std::string_view type) { return type.ends_with("x2") || type.ends_with("x4") || type == "tf32"; }

bool decode_packed_convert(Decoder& decoder) {
  const Statement& s = decoder.s;
  Instruction& i = decoder.i;
  const std::string_view to = s.parts[s.parts.size() - 2], from = s.parts.back();
  const Rounding rounding = rounding_of(i);
  const bool bad = i.kind != 0 || (i.flags & (kSaturate | kFlush)) || rounding == Rounding::down ||
                   rounding == Rounding::up || (rounding == Rounding::away && to != "tf32") ||
                   (is_8_bit(to) && (!(i.flags & kFinite) || rounding != Rounding::nearest));
  if (bad) throw std::runtime_error("the paper GPU does not know a modifier of this conversion");
  i.run = handler_of(i, to, from);
  if (i.run == nullptr) return false;
  const size_t operands = to != "tf32" && from == "f32" ? 3 : 2;
  if (decoder.size() != operands)
    throw std::runtime_error(fmt::format("{} operands where {} are known", decoder.size(), operands));
  decoder.all(false);
  return true;
}

}  // namespace gradmill::paper::ptx
