// SPDX-License-Identifier: Apache-2.0
// Sums, differences and products of multi-word numbers: .cc sets the carry, and the next instruction uses it.
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"

namespace gradmill::paper::ptx {
namespace {

__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;
template <class T>
using Twice = std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                 std::conditional_t<std::is_signed_v<T>, Wide, UnsignedWide>>;

// Flags.
constexpr uint8_t kTakes = 1, kGives = 2, kHigh = 4, kMinus = 8;

// x + y, or x - y, with the carry in; `carry` becomes the carry out.
template <class U>
U sum(U x, U y, bool minus, bool& carry) {
  const U before = minus ? static_cast<U>(x - y) : static_cast<U>(x + y);
  const U after = minus ? static_cast<U>(before - U(carry)) : static_cast<U>(before + U(carry));
  carry = minus ? before > x || after > before : before < x || after < before;
  return after;
}

template <class T, bool kProduct>
void with_carry(Warp& warp, const Instruction& i, uint32_t mask) {
  using U = std::make_unsigned_t<T>;
  const auto *const a = warp.at<U>(i.a), *const b = warp.at<U>(i.b), *const c = kProduct ? warp.at<U>(i.c) : a;
  auto* const d = warp.at<U>(i.d);
  for_each_lane(mask, [&](int lane) {
    U x = a[lane], y = b[lane];
    if constexpr (kProduct) {
      const auto product = static_cast<Twice<T>>(static_cast<T>(x)) * static_cast<Twice<T>>(static_cast<T>(y));
      x = static_cast<U>(i.flags & kHigh ? product >> (8 * sizeof(T)) : product);
      y = c[lane];
    }
    bool carry = (i.flags & kTakes) && (warp.carries >> lane & 1);
    d[lane] = sum(x, y, i.flags & kMinus, carry);
    if (i.flags & kGives) warp.carries = (warp.carries & ~(1u << lane)) | uint32_t{carry} << lane;
  });
}

}  // namespace

bool decode_carry(Decoder& decoder) {
  const Statement& s = decoder.s;
  Instruction& i = decoder.i;
  const std::string_view base = s.parts[0];
  const bool takes = base == "addc" || base == "subc" || base == "madc";
  const bool product = base == "mad" || base == "madc", minus = base == "sub" || base == "subc";
  if (!takes && !(s.has("cc") && (product || minus || base == "add"))) return false;
  decoder.expect(product ? 4 : 3, {"cc", product ? "lo" : "", product ? "hi" : ""});
  i.flags = static_cast<uint8_t>((takes ? kTakes : 0) | (s.has("cc") ? kGives : 0) | (s.has("hi") ? kHigh : 0) |
                                 (minus ? kMinus : 0));
  with_type(s.type(), [&]<class T>(T) {
    if constexpr (std::is_integral_v<T> && sizeof(T) >= 4) i.run = product ? with_carry<T, true> : with_carry<T, false>;
    return true;
  });
  if (i.run == nullptr) return false;
  decoder.all(bytes_of(s.type()) == 8);
  return true;
}

}  // namespace gradmill::paper::ptx
