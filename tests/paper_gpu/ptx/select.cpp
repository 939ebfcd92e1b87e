// SPDX-License-Identifier: Apache-2.0
// Selections, and logic of predicates.
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"
#include "paper_gpu/ptx/rounding.h"

namespace gradmill::paper::ptx {
namespace {

template <class S>
void select(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto *const a = warp.at<S>(i.a), *const b = warp.at<S>(i.b);
  const uint32_t which = warp.predicates[i.c];
  for_lanes(warp.at<S>(i.d), mask, [&](int lane) { return which >> lane & 1 ? a[lane] : b[lane]; });
}

// Selects by the sign of a number. kFlush: subnormal numbers are zeros, which count as positive.
template <class S, class T, bool kFlush = false>
void select_by_sign(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto *const a = warp.at<S>(i.a), *const b = warp.at<S>(i.b);
  const auto* const c = warp.at<uint32_t>(i.c);
  for_lanes(warp.at<S>(i.d), mask, [&](int lane) {
    if constexpr (kFlush) {
      return flushed(unpack<T>(c[lane])) >= T(0) ? a[lane] : b[lane];
    } else {
      return unpack<T>(c[lane]) >= T(0) ? a[lane] : b[lane];
    }
  });
}

// The kind of a predicate's operation.
enum Logic : uint8_t { kBoth, kEither, kOne, kOpposite, kSame };

void logic(Warp& warp, const Instruction& i, uint32_t mask) {
  const uint32_t a =
      i.a == kNoSlot ? (i.offset != 0 ? kAllLanes : 0) : predicate_of(warp, i.a, i.flags & kNegatedPredicate);
  const uint32_t b = i.b == kNoSlot ? 0 : warp.predicates[i.b];
  const uint32_t results[] = {a & b, a | b, a ^ b, ~a, a};
  set_predicate(warp, i.d, mask, results[i.kind]);
}

bool decode_logic(Decoder& decoder) {
  const std::string_view base = decoder.s.parts[0];
  constexpr std::string_view kNames[] = {"and", "or", "xor", "not", "mov"};
  for (uint8_t kind = 0; kind < std::size(kNames); ++kind) {
    if (base != kNames[kind]) continue;
    Instruction& i = decoder.i;
    i.run = logic;
    i.kind = kind;
    decoder.predicate(i.d, decoder.operand(0));
    if (decoder.operand(1).is_number()) {
      i.offset = static_cast<int64_t>(decoder.operand(1).value);
    } else {
      decoder.predicate(i.a, decoder.operand(1));
      if (decoder.operand(1).negated) i.flags |= kNegatedPredicate;
    }
    if (decoder.size() > 2) decoder.predicate(i.b, decoder.operand(2));
    return true;
  }
  return false;
}

template <class S>
Handler sign_handler(bool by_float, bool flush) {
  if (!by_float) return select_by_sign<S, int32_t>;
  return flush ? select_by_sign<S, float, true> : select_by_sign<S, float>;
}

bool decode_selection(Decoder& decoder) {
  const Statement& s = decoder.s;
  Instruction& i = decoder.i;
  decoder.expect(4, {});
  const bool wide = bytes_of(s.type()) == 8;
  i.run = wide ? select<uint64_t> : select<uint32_t>;
  decoder.write(kD, decoder.operand(0), wide);
  decoder.read(kA, decoder.operand(1), wide);
  decoder.read(kB, decoder.operand(2), wide);
  decoder.predicate(i.c, decoder.operand(3));
  return true;
}

bool decode_selection_by_sign(Decoder& decoder) {
  const Statement& s = decoder.s;
  const std::string_view type = s.parts.at(s.parts.size() - 2);
  const bool wide = bytes_of(type) == 8, by_float = s.type() == "f32", flush = s.has("ftz");
  if ((!by_float && s.type() != "s32") || (flush && !by_float)) return false;
  decoder.expect(4, {"ftz", type});
  decoder.i.run = wide ? sign_handler<uint64_t>(by_float, flush) : sign_handler<uint32_t>(by_float, flush);
  decoder.write(kD, decoder.operand(0), wide);
  decoder.read(kA, decoder.operand(1), wide);
  decoder.read(kB, decoder.operand(2), wide);
  decoder.read(kC, decoder.operand(3), false);
  return true;
}

}  // namespace

bool decode_select(Decoder& decoder) {
  const Statement& s = decoder.s;
  if (s.parts[0] == "selp") return decode_selection(decoder);
  if (s.parts[0] == "slct") return decode_selection_by_sign(decoder);
  return s.type() == "pred" && decode_logic(decoder);
}

}  // namespace gradmill::paper::ptx
