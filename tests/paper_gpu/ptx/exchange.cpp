// SPDX-License-Identifier: Apache-2.0
// Exchanges between the lanes of a warp: shuffles, votes, matches, reductions.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"

namespace gradmill::paper::ptx {
namespace {

enum class Shuffle : uint8_t { up, down, butterfly, index };

// c: the last lane and the segments, encoded as in the manual. list[0]: the predicate's number.
template <Shuffle kHow>
void shuffle(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto *const a = warp.at<uint32_t>(i.a), *const b = warp.at<uint32_t>(i.b), *const c = warp.at<uint32_t>(i.c);
  alignas(64) uint32_t result[kLanes];
  uint32_t valid = 0;
  for_each_lane(mask, [&](int lane) {
    const int clamp = int(c[lane] & 31), segment = int(c[lane] >> 8 & 31), by = int(b[lane] & 31);
    const int least = lane & segment, most = least | (clamp & ~segment);
    int from = kHow == Shuffle::up          ? lane - by
               : kHow == Shuffle::down      ? lane + by
               : kHow == Shuffle::butterfly ? lane ^ by
                                            : least | (by & ~segment);
    const bool inside = kHow == Shuffle::up ? from >= most : from <= most;
    if (!inside) from = lane;
    if (!(mask >> from & 1)) {
      fail(warp, 1u << lane, fmt::format("a shuffle reads lane {}, which does not take part", from));
    }
    result[lane] = a[from];
    valid |= uint32_t{inside} << lane;
  });
  for_lanes(warp.at<uint32_t>(i.d), mask, [&](int lane) { return result[lane]; });
  set_predicate(warp, static_cast<Slot>(i.offset), mask, valid);
}

enum class Vote : uint8_t { ballot, any, all, same };

template <Vote kHow>
void vote(Warp& warp, const Instruction& i, uint32_t mask) {
  uint32_t votes =
      i.a == kNoSlot ? (i.offset != 0 ? kAllLanes : 0) : predicate_of(warp, i.a, i.flags & kNegatedPredicate);
  votes &= mask;
  if constexpr (kHow == Vote::ballot) {
    for_lanes(warp.at<uint32_t>(i.d), mask, [&](int) { return votes; });
  } else {
    const bool result = kHow == Vote::any   ? votes != 0
                        : kHow == Vote::all ? votes == mask
                                            : votes == mask || votes == 0;
    set_predicate(warp, i.d, mask, result ? kAllLanes : 0);
  }
}

template <class S, bool kAll>
void match(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<S>(i.a);
  alignas(64) uint32_t result[kLanes] = {};
  for_each_lane(mask, [&](int lane) {
    for_each_lane(mask, [&](int other) { result[lane] |= uint32_t{a[lane] == a[other]} << other; });
  });
  if constexpr (kAll) {
    const bool same = result[std::countr_zero(mask)] == mask;
    for_lanes(warp.at<uint32_t>(i.d), mask, [&](int) { return same ? mask : 0; });
    set_predicate(warp, static_cast<Slot>(i.offset), mask, same ? kAllLanes : 0);
  } else {
    for_lanes(warp.at<uint32_t>(i.d), mask, [&](int lane) { return result[lane]; });
  }
}

enum class Reduction : uint8_t { add, minimum, maximum, both, either, one };

template <class T, Reduction kHow>
void reduce(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<uint32_t>(i.a);
  T result = unpack<T>(a[std::countr_zero(mask)]);
  for_each_lane(mask & (mask - 1), [&](int lane) {
    const T value = unpack<T>(a[lane]);
    if constexpr (kHow == Reduction::add) result = static_cast<T>(uint32_t(result) + uint32_t(value));
    if constexpr (kHow == Reduction::minimum) result = std::min(result, value);
    if constexpr (kHow == Reduction::maximum) result = std::max(result, value);
    if constexpr (kHow == Reduction::both) result &= value;
    if constexpr (kHow == Reduction::either) result |= value;
    if constexpr (kHow == Reduction::one) result ^= value;
  });
  for_lanes(warp.at<uint32_t>(i.d), mask, [&](int) { return pack<T>(result); });
}

// Elects one lane, always the lowest. d: its number, offset: the predicate.
void elect(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto first = static_cast<uint32_t>(std::countr_zero(mask));
  if (i.d != kNoSlot) for_lanes(warp.at<uint32_t>(i.d), mask, [&](int) { return first; });
  set_predicate(warp, static_cast<Slot>(i.offset), mask, 1u << first);
}

void active_mask(Warp& warp, const Instruction& i, uint32_t mask) {
  for_lanes(warp.at<uint32_t>(i.d), mask, [&](int) { return mask; });
}

// Orders the memory accesses of this warp's lanes before and after it.
void synchronise_warp(Warp& warp, const Instruction&, uint32_t) {
  advance(warp);
  meet(warp);
}

// The predicate of d|p, as a number.
void second_result(Decoder& decoder, const Operand& operand) {
  decoder.i.offset = int64_t{kNoSlot};
  if (operand.second.empty() || operand.second == "_") return;
  Operand second;
  second.kind = Operand::Kind::name;
  second.name = operand.second;
  Slot slot = kNoSlot;
  decoder.predicate(slot, second);
  decoder.i.offset = int64_t{slot};
}

bool decode_shuffle(Decoder& decoder) {
  Instruction& i = decoder.i;
  const Statement& s = decoder.s;
  i.run = s.has("up")     ? shuffle<Shuffle::up>
          : s.has("down") ? shuffle<Shuffle::down>
          : s.has("bfly") ? shuffle<Shuffle::butterfly>
                          : shuffle<Shuffle::index>;
  decoder.write(kD, decoder.operand(0), false);
  second_result(decoder, decoder.operand(0));
  decoder.read(kA, decoder.operand(1), false);
  decoder.read(kB, decoder.operand(2), false);
  decoder.read(kC, decoder.operand(3), false);
  decoder.read(kE, decoder.operand(4), false);
  return true;
}

bool decode_vote(Decoder& decoder) {
  Instruction& i = decoder.i;
  const Statement& s = decoder.s;
  const bool ballot = s.has("ballot");
  i.run = ballot         ? vote<Vote::ballot>
          : s.has("any") ? vote<Vote::any>
          : s.has("all") ? vote<Vote::all>
                         : vote<Vote::same>;
  ballot ? decoder.write(kD, decoder.operand(0), false) : decoder.predicate(i.d, decoder.operand(0));
  const Operand& from = decoder.operand(1);
  if (from.is_number()) {
    i.offset = static_cast<int64_t>(from.value);
  } else {
    decoder.predicate(i.a, from);
    if (from.negated) i.flags |= kNegatedPredicate;
  }
  decoder.read(kE, decoder.operand(2), false);
  return true;
}

bool decode_match(Decoder& decoder) {
  Instruction& i = decoder.i;
  const bool wide = decoder.s.type() == "b64", all = decoder.s.has("all");
  i.run = wide ? (all ? match<uint64_t, true> : match<uint64_t, false>)
               : (all ? match<uint32_t, true> : match<uint32_t, false>);
  decoder.write(kD, decoder.operand(0), false);
  if (all) second_result(decoder, decoder.operand(0));
  decoder.read(kA, decoder.operand(1), wide);
  decoder.read(kE, decoder.operand(2), false);
  return true;
}

bool decode_reduction(Decoder& decoder) {
  Instruction& i = decoder.i;
  const Statement& s = decoder.s;
  const bool is_signed = s.type() == "s32";
  if (s.has("add")) i.run = reduce<uint32_t, Reduction::add>;
  if (s.has("min")) i.run = is_signed ? reduce<int32_t, Reduction::minimum> : reduce<uint32_t, Reduction::minimum>;
  if (s.has("max")) i.run = is_signed ? reduce<int32_t, Reduction::maximum> : reduce<uint32_t, Reduction::maximum>;
  if (s.has("and")) i.run = reduce<uint32_t, Reduction::both>;
  if (s.has("or")) i.run = reduce<uint32_t, Reduction::either>;
  if (s.has("xor")) i.run = reduce<uint32_t, Reduction::one>;
  decoder.write(kD, decoder.operand(0), false);
  decoder.read(kA, decoder.operand(1), false);
  decoder.read(kE, decoder.operand(2), false);
  return i.run != nullptr;
}

}  // namespace

bool decode_exchange(Decoder& decoder) {
  const Statement& s = decoder.s;
  const std::string_view base = s.parts[0];
  Instruction& i = decoder.i;
  if (base == "activemask") {
    i.run = active_mask;
    decoder.write(kD, decoder.operand(0), false);
    return true;
  }
  if (s.name.starts_with("bar.warp.sync")) {
    i.flow = Flow::collective;
    i.run = synchronise_warp;
    decoder.read(kE, decoder.operand(0), false);
    return true;
  }
  if (!s.has("sync")) return false;
  if (base == "elect") {
    i.flow = Flow::collective;
    i.run = elect;
    decoder.write(kD, decoder.operand(0), false);
    second_result(decoder, decoder.operand(0));
    decoder.read(kE, decoder.operand(1), false);
    return true;
  }
  const bool known = (base == "shfl" && decode_shuffle(decoder)) || (base == "vote" && decode_vote(decoder)) ||
                     (base == "match" && decode_match(decoder)) || (base == "redux" && decode_reduction(decoder));
  if (known) i.flow = Flow::collective;
  return known;
}

}  // namespace gradmill::paper::ptx
