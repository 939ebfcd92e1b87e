// SPDX-License-Identifier: Apache-2.0
// cp.async: small copies from global to shared memory that the lanes start and wait for.
#include <fmt/format.h>

#include <cstring>

#include "paper_gpu/ptx/access.h"
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"
#include "paper_gpu/shadow.h"
#include "paper_gpu/ptx/mbarrier.h"
#include "paper_gpu/ptx/traffic.h"

namespace gradmill::paper::ptx {
namespace {

void bring(Block& block, const SmallCopy& copy) {
  uint8_t* const to = block.shared + copy.to;
  if (copy.filled != 0) std::memcpy(to, reinterpret_cast<const uint8_t*>(copy.from), copy.filled);
  std::memset(to + copy.filled, 0, size_t{copy.bytes} - copy.filled);
}

// Unwritten words, such as padding between fields of a structure, stay unwritten.
void forget_unwritten(Block& block, const SmallCopy& copy) {
  constexpr uint32_t kWord = 4;
  if (!in_space(copy.from, copy.filled) || why_not_read(copy.from, copy.filled).empty()) return;
  for (uint32_t at = 0; at + kWord <= copy.filled; at += kWord) {
    if (!why_not_read(copy.from + at, kWord).empty()) block.shadow.forget(copy.to + at, kWord);
  }
}

// a: to, b: from, c: number of bytes that are not zero-filled; kind: bytes; offset: of a; target: of b.
void copy_async(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto* const to = warp.at<uint32_t>(i.a);
  const auto* const from = warp.at<uint64_t>(i.b);
  const bool now = grid_of(warp).arrives_now();
  warp.has_copies = true;
  for_each_lane(mask, [&](int lane) {
    const uint32_t bytes = i.kind, filled = i.c == kNoSlot ? bytes : std::min(bytes, warp.at<uint32_t>(i.c)[lane]);
    const uint32_t at = to[lane] + static_cast<uint32_t>(i.offset);
    const uint64_t source = from[lane] + static_cast<uint64_t>(static_cast<int32_t>(i.target));
    if (at % bytes != 0 || (filled != 0 && source % bytes != 0)) {
      fail(
          warp, 1u << lane,
          fmt::format("a copy of {} bytes from {:#x} to {:#x}, which are not both aligned to them", bytes, source, at));
    }
    shared_to_write(warp, at, bytes, lane);
    if (filled != 0) global_to_copy(warp, source, filled, lane);
    const SmallCopy copy{at, source, static_cast<uint8_t>(bytes), static_cast<uint8_t>(filled), warp.num_copies++};
    if (now) {
      bring(*warp.block, copy);
    } else {
      std::memset(warp.block->shared + at, 0xff, bytes);
    }
    if (checks(warp)) warp.block->shadow.note_pending(access_of(warp, lane), at, bytes);
    warp.open_copies[lane].push_back(copy);
    if (Counts* const counts = grid_of(warp).counts) {
      counts->copied_bytes += bytes;
      count_extent(*counts, source, filled, false);
    }
  });
}

void close_group(Warp& warp, int lane) {
  warp.copy_groups[lane].push_back(std::move(warp.open_copies[lane]));
  warp.open_copies[lane].clear();
}

void commit(Warp& warp, const Instruction&, uint32_t mask) {
  for_each_lane(mask, [&](int lane) { close_group(warp, lane); });
}

// offset: number of groups that may still be in flight.
void wait_group(Warp& warp, const Instruction& i, uint32_t mask) {
  for_each_lane(mask, [&](int lane) { finish_copies(warp, lane, static_cast<size_t>(i.offset)); });
}

void wait_all(Warp& warp, const Instruction&, uint32_t mask) {
  for_each_lane(mask, [&](int lane) {
    close_group(warp, lane);
    finish_copies(warp, lane, 0);
  });
}

// Performs the lane's copies up to a number, as the barrier's engine would.
void bring_for(Warp& warp, int lane, uint64_t end, const MemoryBarrier& barrier) {
  const SharedShadow::Access engine{barrier.engine, 0, barrier.known};
  const auto bring_some = [&](std::vector<SmallCopy>& copies) {
    std::erase_if(copies, [&](const SmallCopy& copy) {
      if (copy.number >= end) return false;
      bring(*warp.block, copy);
      if (checks(warp)) warp.block->shadow.note_write(engine, copy.to, copy.bytes, barrier.engine_time);
      return true;
    });
  };
  for (auto& group : warp.copy_groups[lane]) bring_some(group);
  bring_some(warp.open_copies[lane]);
}

// When the lane's copies so far have arrived, the barrier counts an arrival. a: barrier; kind: it is one more than
// expected.
void arrive_after_copies(Warp& warp, const Instruction& i, uint32_t mask) {
  for_each_lane(mask, [&](int lane) {
    const uint32_t at = warp.at<uint32_t>(i.a)[lane] + static_cast<uint32_t>(i.offset);
    MemoryBarrier& expecting = barrier_at(warp, at, lane);
    if (i.kind != 0) ++expecting.pending;
    const auto work = [&warp, lane, at, end = warp.num_copies] {
      const auto found = warp.block->memory_barriers.find(at);
      if (found == warp.block->memory_barriers.end()) throw Finding{"a copy arrives at a barrier that has been ended"};
      MemoryBarrier& barrier = found->second;
      if (barrier.pending == 0) throw Finding{"more copies arrive at a barrier than it expects"};
      bring_for(warp, lane, end, barrier);
      --barrier.pending;
      complete_phase(barrier);
    };
    if (grid_of(warp).options.arrival == Arrival::early) {
      work();
    } else {
      warp.block->cluster->engine.push_back({warp.block, work});
    }
  });
}

}  // namespace

// Including copies that were never closed as a group.
void end_copies(Warp& warp, int lane) {
  if (!warp.has_copies) return;
  close_group(warp, lane);
  finish_copies(warp, lane, 0);
}

void finish_copies(Warp& warp, int lane, size_t left) {
  auto& groups = warp.copy_groups[lane];
  while (groups.size() > left) {
    for (const SmallCopy& copy : groups.front()) {
      bring(*warp.block, copy);
      if (!checks(warp)) continue;
      const SharedShadow::Access access = access_of(warp, lane);
      warp.block->shadow.note_write(access, copy.to, copy.bytes, warp.known.of(warp.actor) + 1);
      forget_unwritten(*warp.block, copy);
    }
    groups.pop_front();
  }
}

bool decode_copy(Decoder& decoder) {
  const Statement& s = decoder.s;
  if (!s.name.starts_with("cp.async.")) return false;
  Instruction& i = decoder.i;
  const std::string_view what = s.parts.at(2);
  if (what == "commit_group") {
    i.run = commit;
  } else if (what == "wait_all") {
    i.run = wait_all;
  } else if (what == "wait_group") {
    i.run = wait_group;
    i.offset = static_cast<int64_t>(decoder.operand(0).value);
  } else if (what == "mbarrier") {
    i.run = arrive_after_copies;
    i.kind = s.has("noinc") ? 0 : 1;
    Space shared = Space::shared;
    if (decoder.address(kA, decoder.operand(0), i.offset, shared)) throw std::runtime_error("an address of 64 bits");
  } else if (what == "ca" || what == "cg") {
    i.run = copy_async;
    Space shared = Space::shared, global = Space::global;
    int64_t from_offset = 0;
    if (decoder.address(kA, decoder.operand(0), i.offset, shared)) throw std::runtime_error("an address of 64 bits");
    if (!decoder.address(kB, decoder.operand(1), from_offset, global))
      throw std::runtime_error("an address of 32 bits");
    i.target = static_cast<uint32_t>(from_offset);
    i.kind = static_cast<uint8_t>(decoder.operand(2).value);
    if (decoder.size() > 3 && !s.has("L2::cache_hint")) decoder.read(kC, decoder.operand(3), false);
  } else {
    return false;
  }
  return true;
}

}  // namespace gradmill::paper::ptx
