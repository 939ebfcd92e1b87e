// SPDX-License-Identifier: Apache-2.0
// Numbered barriers of a block, barriers of a cluster, and fences.
#include <fmt/format.h>

#include <bit>

#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"

namespace gradmill::paper::ptx {
namespace {

// Values of `kind`.
enum Kind : uint8_t { kSync, kArrive, kCount, kAnyOf, kAllOf, kClusterArrive, kClusterWait };
// Flags of a cluster's barrier.
constexpr uint8_t kRelaxed = 1;

bool is_complete(const Block& block, const NamedBarrier& barrier) {
  const uint32_t expected = barrier.expected != 0 ? barrier.expected : block.live_warps;
  return barrier.arrived != 0 && barrier.arrived >= expected;
}

void wake_all(NamedBarrier& barrier) {
  const NamedBarrier done = std::move(barrier);
  barrier = NamedBarrier{};
  for (Warp* const warp : done.waiting) {
    warp->waits = false;
    acquire(*warp, done.known, warp->live);
    meet(*warp);
    const Instruction& i = *warp->current;
    if (i.kind == kCount) std::fill_n(warp->at<uint32_t>(i.d), kLanes, done.count);
    if (i.kind == kAnyOf) set_predicate(*warp, i.d, warp->live, done.count != 0 ? kAllLanes : 0);
    if (i.kind == kAllOf) set_predicate(*warp, i.d, warp->live, done.all);
  }
}

void cluster_arrived(Cluster& cluster) {
  uint32_t live = 0;
  for (const auto& block : cluster.blocks) live += block->live_warps;
  if (live == 0 || cluster.arrived < live) return;
  cluster.arrived = 0;
  ++cluster.phase;
  cluster.released = std::move(cluster.known);
  cluster.known.clear();
}

bool arrive_at_cluster(Warp& warp, const Instruction& i, uint32_t mask) {
  Cluster& cluster = *warp.block->cluster;
  if (i.kind == kClusterArrive) {
    if (warp.in_cluster_barrier) fail(warp, mask, "a warp arrives at the cluster's barrier twice without waiting");
    warp.in_cluster_barrier = true;
    warp.cluster_phase = cluster.phase;
    ++cluster.arrived;
    if (!(i.flags & kRelaxed)) {
      release(warp, cluster.known, mask);
    } else if (warp.has_fenced) {
      cluster.known.join(warp.fenced);
    }
    cluster_arrived(cluster);
    return true;
  }
  if (!warp.in_cluster_barrier) fail(warp, mask, "a warp waits at the cluster's barrier without having arrived");
  if (cluster.phase == warp.cluster_phase) {
    warp.polls = true;
    return false;
  }
  warp.in_cluster_barrier = false;
  acquire(warp, cluster.released, mask);
  meet(warp);
  return true;
}

void count_votes(Warp& warp, const Instruction& i, uint32_t mask, NamedBarrier& barrier) {
  if (i.kind < kCount) return;
  const uint32_t votes = predicate_of(warp, i.c, i.flags & kNegatedPredicate) & mask;
  barrier.count += static_cast<uint32_t>(std::popcount(votes));
  if (votes != mask) barrier.all = 0;
}

void arrive_by_scheduler(Warp&, const Instruction&, uint32_t) {}

// Makes the writes of a lane visible to the copy engine and to products.
void fence_proxy(Warp& warp, const Instruction&, uint32_t mask) {
  const uint32_t time = advance(warp);
  for_each_lane(mask, [&](int lane) { warp.proxy_fences[lane] = time + 1; });
  for (auto& [address, barrier] : warp.block->memory_barriers) barrier.known_to_engine |= barrier.maker == warp.actor;
}

// Orders accesses and relaxed atomics: later atomics pass on what was done before, and what earlier atomics have seen
// is known from here on.
void fence_memory(Warp& warp, const Instruction&, uint32_t) {
  if (warp.has_seen) acquire_of_warps(warp, warp.seen);
  warp.has_seen = false;
  warp.seen.clear();
  warp.fenced.clear();
  release(warp, warp.fenced, kAllLanes);
  warp.has_fenced = true;
}

// Makes barriers that this warp has initialised visible to the copy engine.
void fence_barriers(Warp& warp, const Instruction& i, uint32_t mask) {
  for (auto& [address, barrier] : warp.block->memory_barriers) barrier.known_to_engine |= barrier.maker == warp.actor;
  fence_memory(warp, i, mask);
}

bool decode_fence(Decoder& decoder) {
  const Statement& s = decoder.s;
  Instruction& i = decoder.i;
  if (s.has("mbarrier_init")) {
    i.run = fence_barriers;
    return true;
  }
  if (s.has("proxy")) {
    i.run = fence_proxy;
    if (!s.has("async") && !s.has("async::generic") && !s.name.starts_with("fence.proxy.async")) return false;
  } else {
    i.run = fence_memory;
  }
  return true;
}

bool decode_cluster_barrier(Decoder& decoder) {
  Instruction& i = decoder.i;
  i.flow = Flow::barrier;
  i.run = arrive_by_scheduler;
  i.kind = decoder.s.has("arrive") ? kClusterArrive : kClusterWait;
  if (decoder.s.has("relaxed")) i.flags |= kRelaxed;
  return true;
}

}  // namespace

uint32_t advance(Warp& warp) {
  const uint32_t time = warp.known.of(warp.actor) + 1;
  if (time >= SharedShadow::kMostTime && checks(warp)) {
    throw Finding{"a block synchronises too often for the checks to count; PAPER_CHECKS=off runs it without them"};
  }
  warp.known.set(warp.actor, time);
  if (warp.lanes_ahead != 0) warp.ahead.set(warp.actor, time);
  return time;
}

void tell(const Warp& warp, Knowledge& to, uint32_t lanes) {
  const uint32_t before = to.of(warp.actor);
  to.join(warp.known);
  if (warp.lanes_ahead & lanes) to.join(warp.ahead);
  if ((warp.live & ~lanes) == 0) return;
  to.set(warp.actor, std::max(before, warp.lanes_met));
  to.set_lanes(warp.actor, lanes, warp.known.of(warp.actor));
}

void release(Warp& warp, Knowledge& to, uint32_t lanes) {
  advance(warp);
  tell(warp, to, lanes);
}

void acquire_of_warps(Warp& warp, const Knowledge& from) {
  warp.known.join(from);
  if (warp.lanes_ahead != 0) warp.ahead.join(from);
  warp.acquired_at = warp.known.of(warp.actor) + 1;
}

void acquire(Warp& warp, const Knowledge& from, uint32_t lanes) {
  if ((warp.live & ~lanes) == 0) {
    warp.lanes_met = std::max(warp.lanes_met, from.of(warp.actor));
    return acquire_of_warps(warp, from);
  }
  if (warp.lanes_ahead == 0) warp.ahead = warp.known;
  warp.lanes_ahead |= lanes;
  warp.ahead.join(from);
  warp.acquired_at = warp.known.of(warp.actor) + 1;
}

void meet(Warp& warp) {
  warp.lanes_met = warp.known.of(warp.actor);
  if (warp.lanes_ahead != 0) warp.known.join(warp.ahead);
  warp.lanes_ahead = 0;
}

bool arrive(Warp& warp, const Instruction& i, uint32_t mask) {
  if (i.kind >= kClusterArrive) return arrive_at_cluster(warp, i, mask);
  Block& block = *warp.block;
  const int lane = std::countr_zero(mask);
  const uint32_t number = warp.at<uint32_t>(i.a)[lane];
  if (number >= std::size(block.barriers)) fail(warp, mask, fmt::format("there is no barrier {}", number));
  const uint32_t threads = i.b != kNoSlot ? warp.at<uint32_t>(i.b)[lane] : 0;
  if (threads % kLanes != 0)
    fail(warp, mask, fmt::format("a barrier for {} threads, which are no whole warps", threads));
  NamedBarrier& barrier = block.barriers[number];
  const uint32_t expected = threads / kLanes;
  if (barrier.arrived != 0 && barrier.expected != expected) {
    fail(warp, mask, fmt::format("barrier {} is used with different numbers of threads at a time", number));
  }
  for (const Warp* const waiting : barrier.waiting) {
    if (waiting->current != &i && waiting->current->kind != i.kind &&
        (waiting->current->kind >= kCount || i.kind >= kCount)) {
      fail(warp, mask, fmt::format("warps meet at barrier {} by different instructions", number));
    }
  }
  barrier.expected = expected;
  ++barrier.arrived;
  count_votes(warp, i, mask, barrier);
  release(warp, barrier.known, mask);
  if (i.kind != kArrive) {
    barrier.waiting.push_back(&warp);
    warp.waits = true;
  }
  if (is_complete(block, barrier)) wake_all(barrier);
  return !warp.waits;
}

void warp_ended(Warp& warp) {
  Block& block = *warp.block;
  finish_products(warp, 0);
  for (int lane = 0; lane < kLanes; ++lane) {
    end_copies(warp, lane);
    end_stores(warp, lane);
  }
  --block.live_warps;
  for (NamedBarrier& barrier : block.barriers) {
    if (is_complete(block, barrier)) wake_all(barrier);
  }
  cluster_arrived(*block.cluster);
}

bool decode_barrier(Decoder& decoder) {
  const Statement& s = decoder.s;
  Instruction& i = decoder.i;
  if (s.parts[0] == "fence" || s.parts[0] == "membar") return decode_fence(decoder);
  if (s.name.starts_with("barrier.cluster")) return decode_cluster_barrier(decoder);
  if (s.parts[0] != "bar" && s.parts[0] != "barrier") return false;
  i.flow = Flow::barrier;
  i.run = arrive_by_scheduler;
  if (s.has("red")) {
    i.kind = s.has("popc") ? kCount : s.has("or") ? kAnyOf : kAllOf;
    i.kind == kCount ? decoder.write(kD, decoder.operand(0), false) : decoder.predicate(i.d, decoder.operand(0));
    decoder.read(kA, decoder.operand(1), false);
    if (decoder.size() == 4) decoder.read(kB, decoder.operand(2), false);
    const Operand& vote = decoder.operand(decoder.size() - 1);
    decoder.predicate(i.c, vote);
    if (vote.negated) i.flags |= kNegatedPredicate;
    return true;
  }
  i.kind = s.has("arrive") ? kArrive : kSync;
  decoder.read(kA, decoder.operand(0), false);
  if (decoder.size() > 1) decoder.read(kB, decoder.operand(1), false);
  return true;
}

}  // namespace gradmill::paper::ptx
