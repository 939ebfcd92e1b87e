// SPDX-License-Identifier: Apache-2.0
// Moves of whole registers, and splitting and joining them.
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"

namespace gradmill::paper::ptx {
namespace {

template <class S>
void move(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<S>(i.a);
  for_lanes(warp.at<S>(i.d), mask, [&](int lane) { return a[lane]; });
}

template <class S>
void take_apart(Warp& warp, const Instruction& i, uint32_t mask) {
  alignas(64) S values[kLanes];
  std::copy_n(warp.at<S>(i.a), kLanes, values);
  const auto bits = static_cast<uint32_t>(8 * sizeof(S) / i.list.size());
  const auto low = static_cast<uint32_t>((uint64_t{1} << bits) - 1);
  for (size_t n = 0; n < i.list.size(); ++n) {
    if (i.list[n] == kNoSlot) continue;
    const auto by = static_cast<uint32_t>(n) * bits;
    for_lanes(warp.at<uint32_t>(i.list[n]), mask,
              [&](int lane) { return static_cast<uint32_t>(values[lane] >> by) & low; });
  }
}

template <class S>
void put_together(Warp& warp, const Instruction& i, uint32_t mask) {
  alignas(64) S values[kLanes] = {};
  const auto bits = static_cast<uint32_t>(8 * sizeof(S) / i.list.size());
  const auto low = static_cast<uint32_t>((uint64_t{1} << bits) - 1);
  for (size_t n = 0; n < i.list.size(); ++n) {
    const auto* const part = warp.at<uint32_t>(i.list[n]);
    const auto by = static_cast<uint32_t>(n) * bits;
    for (int lane = 0; lane < kLanes; ++lane) values[lane] |= static_cast<S>(part[lane] & low) << by;
  }
  for_lanes(warp.at<S>(i.d), mask, [&](int lane) { return values[lane]; });
}

}  // namespace

bool decode_move(Decoder& decoder) {
  const Statement& s = decoder.s;
  if (s.parts[0] != "mov" || s.type() == "pred") return false;
  Instruction& i = decoder.i;
  const bool wide = bytes_of(s.type()) == 8;
  const Operand &to = decoder.operand(0), &from = decoder.operand(1);
  if (to.kind == Operand::Kind::list) {
    i.run = wide ? take_apart<uint64_t> : take_apart<uint32_t>;
    decoder.read(kA, from, wide);
    decoder.write_list(to, false);
  } else if (from.kind == Operand::Kind::list) {
    i.run = wide ? put_together<uint64_t> : put_together<uint32_t>;
    decoder.read_list(from, false);
    decoder.write(kD, to, wide);
  } else {
    i.run = wide ? move<uint64_t> : move<uint32_t>;
    decoder.write(kD, to, wide);
    decoder.read(kA, from, wide);
  }
  return true;
}

}  // namespace gradmill::paper::ptx
