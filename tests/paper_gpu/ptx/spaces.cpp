// SPDX-License-Identifier: Apache-2.0
// Finds the space and block of an address, and the same location in another block.
#include <fmt/format.h>

#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"
#include "paper_gpu/ptx/traffic.h"

namespace gradmill::paper::ptx {
namespace {

// The address in another block of the cluster.
template <class S>
void map_address(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<S>(i.a);
  const auto* const b = warp.at<uint32_t>(i.b);
  auto* const d = warp.at<S>(i.d);
  const size_t blocks = warp.block->cluster->blocks.size();
  for_each_lane(mask, [&](int lane) {
    if (b[lane] >= blocks)
      fail(warp, 1u << lane, fmt::format("a cluster of {} blocks has no block {}", blocks, b[lane]));
    const S window = sizeof(S) == 8 ? static_cast<S>(kSharedWindow) : 0;
    const auto offset = static_cast<S>((a[lane] - window) & ((1u << kRankShift) - 1));
    d[lane] = window + (static_cast<S>(b[lane] + 1) << kRankShift | offset);
  });
}

bool decode_mapa(Decoder& decoder) {
  const bool wide = decoder.s.type() == "u64";
  if (wide == decoder.s.has("shared::cluster")) return false;
  decoder.i.run = wide ? map_address<uint64_t> : map_address<uint32_t>;
  decoder.write(kD, decoder.operand(0), wide);
  decoder.read(kA, decoder.operand(1), wide);
  decoder.read(kB, decoder.operand(2), false);
  return true;
}

// The rank, in its cluster, of the block that an address of shared memory belongs to.
template <class S>
void find_rank(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<S>(i.a);
  const uint32_t own = warp.block->rank;
  for_lanes(warp.at<uint32_t>(i.d), mask, [&](int lane) {
    const uint32_t rank = static_cast<uint32_t>(a[lane]) >> kRankShift;  // the window's bits are above
    return rank == 0 ? own : rank - 1;
  });
}

bool decode_rank(Decoder& decoder) {
  const bool wide = decoder.s.type() == "u64";
  if (wide == decoder.s.has("shared::cluster")) return false;
  decoder.i.run = wide ? find_rank<uint64_t> : find_rank<uint32_t>;
  decoder.write(kD, decoder.operand(0), false);
  decoder.read(kA, decoder.operand(1), wide);
  return true;
}

// kind: the space.
void is_in_space(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<uint64_t>(i.a);
  uint32_t result = 0;
  for_each_lane(mask, [&](int lane) {
    const auto within = [&](uint64_t window) { return a[lane] >= window && a[lane] < window + kWindowBytes; };
    Space space = Space::global;
    if (within(kSharedWindow)) space = Space::shared;
    if (within(kLocalWindow)) space = Space::local;
    if (within(kParamWindow)) space = Space::param;
    result |= uint32_t{space == static_cast<Space>(i.kind)} << lane;
  });
  set_predicate(warp, i.d, mask, result);
}

bool decode_is_in_space(Decoder& decoder) {
  const std::string_view name = decoder.s.type();
  const Space space = space_named(name);
  // An address does not show whether it is in constant memory or in this block's own shared memory.
  if (name == "const" || name == "shared::cta" || space == Space::generic) return false;
  decoder.i.run = is_in_space;
  decoder.i.kind = static_cast<uint8_t>(space == Space::cluster ? Space::shared : space);
  decoder.predicate(decoder.i.d, decoder.operand(0));
  decoder.read(kA, decoder.operand(1), true);
  return true;
}

}  // namespace

bool decode_space(Decoder& decoder) {
  const std::string_view base = decoder.s.parts[0];
  if (base == "mapa") return decode_mapa(decoder);
  if (base == "getctarank") return decode_rank(decoder);
  return base == "isspacep" && decode_is_in_space(decoder);
}

}  // namespace gradmill::paper::ptx
