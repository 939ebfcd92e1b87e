// SPDX-License-Identifier: Apache-2.0
// Bit fields, counts and permutations.
#include <algorithm>
#include <bit>

#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"

namespace gradmill::paper::ptx {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

// Shifts two concatenated words (shf).
template <bool kLeft, bool kClamp>
void funnel_shift(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto *const a = warp.at<uint32_t>(i.a), *const b = warp.at<uint32_t>(i.b), *const c = warp.at<uint32_t>(i.c);
  for_lanes(warp.at<uint32_t>(i.d), mask, [&](int lane) {
    const uint32_t by = kClamp ? std::min(c[lane], 32u) : c[lane] & 31;
    const uint64_t both = a[lane] | uint64_t{b[lane]} << 32;
    return static_cast<uint32_t>(kLeft ? (both << by) >> 32 : both >> by);
  });
}

// 32-bit instructions use only the lower eight bits of a field's position or length.
template <class T>
uint32_t field_number(uint32_t value) {
  return sizeof(T) == 8 ? std::min(value, 255u) : value & 255;
}

template <class T>
void insert_bits(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto *const a = warp.at<T>(i.a), *const b = warp.at<T>(i.b);
  const auto *const c = warp.at<uint32_t>(i.c), *const e = warp.at<uint32_t>(i.list[0]);
  for_lanes(warp.at<T>(i.d), mask, [&](int lane) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    const uint32_t at = field_number<T>(c[lane]), length = field_number<T>(e[lane]);
    if (at >= kBits || length == 0) return b[lane];
    const T field = static_cast<T>((length >= kBits ? ~T(0) : static_cast<T>((T(1) << length) - 1)) << at);
    return static_cast<T>((b[lane] & ~field) | (a[lane] << at & field));
  });
}

// Bits from `at` on; bits beyond the value are copies of its sign.
template <class T>
void extract_bits(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<SlotOf<T>>(i.a);
  const auto *const b = warp.at<uint32_t>(i.b), *const c = warp.at<uint32_t>(i.c);
  for_lanes(warp.at<SlotOf<T>>(i.d), mask, [&](int lane) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    const T value = unpack<T>(a[lane]);
    const uint32_t at = field_number<T>(b[lane]), length = field_number<T>(c[lane]);
    if (length == 0) return pack<T>(0);
    const uint32_t last = std::min(at + length - 1, kBits - 1);
    const bool negative = std::is_signed_v<T> && (value >> last & 1);
    const auto shifted = static_cast<Unsigned<T>>(at >= kBits ? Unsigned<T>(0) : static_cast<Unsigned<T>>(value) >> at);
    const uint32_t kept = at >= kBits ? 0 : std::min(length, kBits - at);
    const auto low = static_cast<Unsigned<T>>(kept >= kBits ? ~Unsigned<T>(0) : (Unsigned<T>(1) << kept) - 1);
    return pack<T>(static_cast<T>((shifted & low) | (negative ? static_cast<Unsigned<T>>(~low) : Unsigned<T>(0))));
  });
}

// kind: the mode of prmt.
enum Permutation : uint8_t { kAny, kForward4, kBackward4, kReplicate8, kEdgeLeft, kEdgeRight, kReplicate16 };
uint32_t selector_of(uint8_t mode, uint32_t c) {
  const uint32_t n = c & 3;
  switch (mode) {
    case kForward4:
      return n | (n + 1) << 4 | (n + 2) << 8 | (n + 3) << 12;
    case kBackward4:
      return n | ((n - 1) & 7) << 4 | ((n - 2) & 7) << 8 | ((n - 3) & 7) << 12;
    case kReplicate8:
      return n * 0x1111;
    case kEdgeLeft:
      return std::max(n, 0u) | std::max(n, 1u) << 4 | std::max(n, 2u) << 8 | 3u << 12;
    case kEdgeRight:
      return 0u | std::min(n, 1u) << 4 | std::min(n, 2u) << 8 | n << 12;
    case kReplicate16:
      return (n & 1) == 0 ? 0x1010 : 0x3232;
    default:
      return c;
  }
}

void permute_bytes(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto *const a = warp.at<uint32_t>(i.a), *const b = warp.at<uint32_t>(i.b), *const c = warp.at<uint32_t>(i.c);
  for_lanes(warp.at<uint32_t>(i.d), mask, [&](int lane) {
    const uint64_t both = a[lane] | uint64_t{b[lane]} << 32;
    const uint32_t selector = selector_of(i.kind, c[lane]);
    uint32_t result = 0;
    for (uint32_t n = 0; n < 4; ++n) {
      const uint32_t select = selector >> (4 * n) & 15;
      uint32_t byte = static_cast<uint32_t>(both >> (8 * (select & 7))) & 255;
      if (i.kind == kAny && (select & 8)) byte = byte & 128 ? 255 : 0;
      result |= byte << (8 * n);
    }
    return result;
  });
}

// kind: the truth table.
void logic3(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto *const a = warp.at<uint32_t>(i.a), *const b = warp.at<uint32_t>(i.b), *const c = warp.at<uint32_t>(i.c);
  for_lanes(warp.at<uint32_t>(i.d), mask, [&](int lane) {
    uint32_t result = 0;
    for (uint32_t n = 0; n < 8; ++n) {
      if (!(i.kind >> n & 1)) continue;
      result |= (n & 4 ? a[lane] : ~a[lane]) & (n & 2 ? b[lane] : ~b[lane]) & (n & 1 ? c[lane] : ~c[lane]);
    }
    return result;
  });
}

template <class T, class F>
void count_bits(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<SlotOf<T>>(i.a);
  for_lanes(warp.at<uint32_t>(i.d), mask, [&](int lane) { return static_cast<uint32_t>(F()(unpack<T>(a[lane]))); });
}
struct Ones {
  template <class T>
  int operator()(T a) const {
    return std::popcount(a);
  }
};
struct LeadingZeros {
  template <class T>
  int operator()(T a) const {
    return std::countl_zero(a);
  }
};
// The highest bit that differs from the sign bit; -1 if there is none.
template <bool kShiftAmount>
struct HighestBit {
  template <class T>
  int operator()(T a) const {
    const auto bits = static_cast<Unsigned<T>>(std::is_signed_v<T> && a < 0 ? static_cast<T>(~a) : a);
    if (bits == 0) return -1;
    const int zeros = std::countl_zero(bits);
    return kShiftAmount ? zeros : int(8 * sizeof(T)) - 1 - zeros;
  }
};
template <class T>
void reverse_bits(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<T>(i.a);
  for_lanes(warp.at<T>(i.d), mask, [&](int lane) {
    T result = 0;
    for (uint32_t n = 0; n < 8 * sizeof(T); ++n)
      result |= static_cast<T>((a[lane] >> n & 1) << (8 * sizeof(T) - 1 - n));
    return result;
  });
}

Handler count_handler(const Statement& s) {
  const std::string_view base = s.parts[0];
  const bool amount = s.has("shiftamt");
  Handler found = nullptr;
  with_type(s.type(), [&]<class T>(T) {
    if constexpr (std::is_integral_v<T> && sizeof(T) >= 4) {
      if (base == "popc") found = count_bits<Unsigned<T>, Ones>;
      if (base == "clz") found = count_bits<Unsigned<T>, LeadingZeros>;
      if (base == "bfind") found = amount ? count_bits<T, HighestBit<true>> : count_bits<T, HighestBit<false>>;
    }
    return true;
  });
  return found;
}

bool decode_fields(Decoder& decoder) {
  const Statement& s = decoder.s;
  Instruction& i = decoder.i;
  const std::string_view base = s.parts[0], type = s.type();
  if (base == "popc" || base == "clz" || base == "bfind") {
    decoder.expect(2, {base == "bfind" ? "shiftamt" : ""});
    i.run = count_handler(s);
    decoder.write(kD, decoder.operand(0), false);
    decoder.read(kA, decoder.operand(1), bytes_of(type) == 8);
  } else if (base == "brev") {
    const bool wide = type == "b64";
    decoder.expect(2, {});
    i.run = wide ? reverse_bits<uint64_t> : reverse_bits<uint32_t>;
    decoder.all(wide);
  } else if (base == "bfi") {
    const bool wide = type == "b64";
    decoder.expect(5, {});
    i.run = wide ? insert_bits<uint64_t> : insert_bits<uint32_t>;
    decoder.write(kD, decoder.operand(0), wide);
    decoder.read(kA, decoder.operand(1), wide);
    decoder.read(kB, decoder.operand(2), wide);
    decoder.read(kC, decoder.operand(3), false);
    decoder.read_list(decoder.operand(4), false);
  } else if (base == "bfe") {
    const bool wide = bytes_of(type) == 8;
    decoder.expect(4, {});
    with_type(type, [&]<class T>(T) {
      if constexpr (std::is_integral_v<T> && sizeof(T) >= 4) i.run = extract_bits<T>;
      return true;
    });
    decoder.write(kD, decoder.operand(0), wide);
    decoder.read(kA, decoder.operand(1), wide);
    decoder.read(kB, decoder.operand(2), false);
    decoder.read(kC, decoder.operand(3), false);
  }
  return i.run != nullptr;
}

bool decode_words(Decoder& decoder) {
  const Statement& s = decoder.s;
  Instruction& i = decoder.i;
  if (s.parts[0] == "prmt") {
    constexpr std::string_view kModes[] = {"", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
    for (uint8_t mode = 1; mode < std::size(kModes); ++mode) {
      if (s.has(kModes[mode])) i.kind = mode;
    }
    i.run = permute_bytes;
    decoder.all(false);
    return true;
  }
  if (s.parts[0] == "lop3") {
    if (decoder.size() != 5) throw std::runtime_error("a lop3 with a predicate");
    i.run = logic3;
    i.kind = static_cast<uint8_t>(decoder.operand(4).value);
    decoder.write(kD, decoder.operand(0), false);
    decoder.read(kA, decoder.operand(1), false);
    decoder.read(kB, decoder.operand(2), false);
    decoder.read(kC, decoder.operand(3), false);
    return true;
  }
  if (s.parts[0] == "shf") {
    const bool left = s.has("l"), clamp = s.has("clamp");
    i.run = left ? (clamp ? funnel_shift<true, true> : funnel_shift<true, false>)
                 : (clamp ? funnel_shift<false, true> : funnel_shift<false, false>);
    decoder.all(false);
    return true;
  }
  return false;
}

}  // namespace

bool decode_bits(Decoder& decoder) { return decode_fields(decoder) || decode_words(decoder); }

}  // namespace gradmill::paper::ptx
