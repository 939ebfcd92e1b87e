// SPDX-License-Identifier: Apache-2.0
// Barriers in shared memory, at which threads and copies arrive.
#include "paper_gpu/ptx/mbarrier.h"

#include <fmt/format.h>

#include "paper_gpu/ptx/access.h"
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"
#include "paper_gpu/ptx/traffic.h"

namespace gradmill::paper::ptx {
namespace {

constexpr uint32_t kBytes = 8;
// Additional flags, besides those of addresses.
constexpr uint8_t kExpects = 8, kArrives = 16, kByParity = 32, kDrops = 64, kStays = 128;

uint32_t address_of(Warp& warp, const Instruction& i, int lane) {
  if (!(i.flags & kWideAddress)) return warp.at<uint32_t>(i.a)[lane] + static_cast<uint32_t>(i.offset);
  uint64_t address = warp.at<uint64_t>(i.a)[lane] + static_cast<uint64_t>(i.offset);
  if (address >= kSharedWindow && address < kSharedWindow + kWindowBytes) address -= kSharedWindow;
  return static_cast<uint32_t>(address);
}

void init(Warp& warp, const Instruction& i, uint32_t mask) {
  for_each_lane(mask, [&](int lane) {
    const uint32_t at = address_of(warp, i, lane), count = warp.at<uint32_t>(i.b)[lane];
    if (at % kBytes != 0) fail(warp, 1u << lane, "a barrier that is not aligned to 8 bytes");
    if (count == 0 || count >= 1u << 20) fail(warp, 1u << lane, fmt::format("a barrier for {} arrivals", count));
    Block& block = *warp.block;
    if (!block.memory_barriers.contains(at)) shared_to_write(warp, at, kBytes, lane);
    Cluster& cluster = *block.cluster;
    const auto num_warps = static_cast<uint32_t>(block.warps.size() * cluster.blocks.size());
    const uint32_t engine = num_warps + cluster.num_engines++;
    MemoryBarrier& barrier = block.memory_barriers[at] = {.expected = count, .pending = count};
    barrier.engine = engine;
    barrier.engine_time = block.shadow.floor();
    barrier.maker = warp.actor;
    barrier.made_at = warp.known.of(warp.actor) + 1;
    if (checks(warp)) block.shadow.note_barrier(at, kBytes);
  });
}

void invalidate(Warp& warp, const Instruction& i, uint32_t mask) {
  for_each_lane(mask, [&](int lane) {
    uint32_t at = address_of(warp, i, lane);
    Block& block = block_at(warp, at, lane);
    if (block.memory_barriers.erase(at) == 0) fail(warp, 1u << lane, "there is no barrier to end");
    block.shadow.forget(at, kBytes);
  });
}

MemoryBarrier& barrier_of(Warp& warp, const Instruction& i, int lane) {
  return barrier_at(warp, address_of(warp, i, lane), lane);
}

uint32_t lanes_at(Warp& warp, const Instruction& i, uint32_t mask, uint32_t address) {
  uint32_t result = 0;
  for_each_lane(mask, [&](int lane) { result |= uint32_t{address_of(warp, i, lane) == address} << lane; });
  return result;
}

// b: bytes, with kExpects; with kArrives it also arrives.
void arrive_there(Warp& warp, const Instruction& i, uint32_t mask) {
  if (i.flags & kArrives) advance(warp);
  const MemoryBarrier* told = nullptr;
  for_each_lane(mask, [&](int lane) {
    MemoryBarrier& barrier = barrier_of(warp, i, lane);
    const uint64_t state = barrier.phase | uint64_t{barrier.pending} << 32;
    if (i.flags & kExpects) barrier.bytes += warp.at<uint32_t>(i.b)[lane];
    if (i.flags & kArrives) {
      const uint32_t count = !(i.flags & kExpects) && i.b != kNoSlot ? warp.at<uint32_t>(i.b)[lane] : 1;
      if (barrier.pending < count) fail(warp, 1u << lane, "more threads arrive at a barrier than it expects");
      barrier.pending -= count;
      if (i.flags & kDrops) barrier.expected -= count;
      if (told != &barrier) tell(warp, barrier.known, lanes_at(warp, i, mask, address_of(warp, i, lane)));
      told = &barrier;
    }
    if (i.d != kNoSlot) warp.at<uint64_t>(i.d)[lane] = state;
    if ((i.flags & kStays) && barrier.pending == 0)
      fail(warp, 1u << lane, "an arrival with .noComplete completes the phase");
    complete_phase(barrier);
  });
}

// b: bytes, as if a copy had delivered them.
void complete_bytes(Warp& warp, const Instruction& i, uint32_t mask) {
  for_each_lane(mask, [&](int lane) { bytes_arrived(barrier_of(warp, i, lane), warp.at<uint32_t>(i.b)[lane]); });
}

// mbarrier.pending_count: the number of missing arrivals before the arrival that returned this state.
void pending_count(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const a = warp.at<uint64_t>(i.a);
  for_lanes(warp.at<uint32_t>(i.d), mask, [&](int lane) { return static_cast<uint32_t>(a[lane] >> 32); });
}

// Whether the phase has ended: the phase with a parity (b), or the one in an arrival's state (b).
void try_wait(Warp& warp, const Instruction& i, uint32_t mask) {
  uint32_t ended = 0;
  // Usually all lanes poll the same barrier.
  uint32_t last_address = 0;
  uint64_t last_phase = 0;
  bool asked = false, done = false;
  for_each_lane(mask, [&](int lane) {
    const uint32_t address = address_of(warp, i, lane);
    const uint64_t phase = i.flags & kByParity ? warp.at<uint32_t>(i.b)[lane] & 1 : warp.at<uint64_t>(i.b)[lane];
    if (!asked || address != last_address || phase != last_phase) {
      const MemoryBarrier& barrier = barrier_at(warp, address, lane);
      done = i.flags & kByParity ? (barrier.phase & 1) != phase : barrier.phase != static_cast<uint32_t>(phase);
      if (done) acquire(warp, barrier.released, lanes_at(warp, i, mask, address_of(warp, i, lane)));
      asked = true;
      last_address = address;
      last_phase = phase;
    }
    ended |= uint32_t{done} << lane;
  });
  set_predicate(warp, i.d, mask, ended);
  if (ended == mask) ++warp.passed;
  if (ended != mask) warp.polls = true;
}

void barrier_operand(Decoder& decoder, size_t n) {
  Space space = Space::shared;
  if (decoder.address(kA, decoder.operand(n), decoder.i.offset, space)) decoder.i.flags |= kWideAddress;
}

bool decode_arrival(Decoder& decoder) {
  const Statement& s = decoder.s;
  Instruction& i = decoder.i;
  i.run = arrive_there;
  const bool drops = s.has("arrive_drop"), arrives = drops || s.has("arrive");
  if (arrives) i.flags |= kArrives;
  if (drops) i.flags |= kDrops;
  if (s.has("expect_tx")) i.flags |= kExpects;
  if (s.has("noComplete")) i.flags |= kStays;
  const size_t at = arrives ? 1 : 0;
  if (at == 1 && decoder.operand(0).kind != Operand::Kind::sink) decoder.write(kD, decoder.operand(0), true);
  barrier_operand(decoder, at);
  if (decoder.size() > at + 1) decoder.read(kB, decoder.operand(at + 1), false);
  return true;
}

}  // namespace

MemoryBarrier& barrier_at(Warp& warp, uint32_t address, int lane) {
  Block& block = block_at(warp, address, lane);
  const auto found = block.memory_barriers.find(address);
  if (found == block.memory_barriers.end()) {
    fail(warp, 1u << lane, fmt::format("shared memory at {:#x} holds no barrier that was initialised", address));
  }
  const MemoryBarrier& barrier = found->second;
  const bool told =
      warp.actor == barrier.maker || warp.known_to(uint32_t(lane)).has_heard(barrier.maker, barrier.made_at);
  if (checks(warp) && !told) {
    fail(warp, 1u << lane,
         "a barrier is used before its initialisation is known to this warp: a __syncthreads is missing");
  }
  return found->second;
}

void complete_phase(MemoryBarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.expected;
  // What copies of this phase wrote is known to threads that wait for it.
  barrier.known.set(barrier.engine, std::max(barrier.known.of(barrier.engine), barrier.engine_time));
  ++barrier.engine_time;
  barrier.released = barrier.known;
}

void bytes_arrived(MemoryBarrier& barrier, uint32_t bytes) {
  barrier.bytes -= bytes;
  complete_phase(barrier);
}

bool decode_mbarrier(Decoder& decoder) {
  const Statement& s = decoder.s;
  Instruction& i = decoder.i;
  if (s.parts[0] != "mbarrier") return false;
  const std::string_view what = s.parts.at(1);
  if (what == "init") {
    i.run = init;
    barrier_operand(decoder, 0);
    decoder.read(kB, decoder.operand(1), false);
  } else if (what == "inval") {
    i.run = invalidate;
    barrier_operand(decoder, 0);
  } else if (what == "arrive" || what == "arrive_drop" || what == "expect_tx") {
    return decode_arrival(decoder);
  } else if (what == "complete_tx") {
    i.run = complete_bytes;
    barrier_operand(decoder, 0);
    decoder.read(kB, decoder.operand(1), false);
  } else if (what == "pending_count") {
    i.run = pending_count;
    decoder.write(kD, decoder.operand(0), false);
    decoder.read(kA, decoder.operand(1), true);
  } else if (what == "try_wait" || what == "test_wait") {
    i.run = try_wait;
    i.flow = Flow::poll;
    const bool parity = s.has("parity");
    if (parity) i.flags |= kByParity;
    decoder.predicate(i.d, decoder.operand(0));
    barrier_operand(decoder, 1);
    decoder.read(kB, decoder.operand(2), !parity);
  } else {
    return false;
  }
  return true;
}

}  // namespace gradmill::paper::ptx
