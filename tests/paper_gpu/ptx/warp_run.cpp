// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/warp_run.h"

#include <bit>

#include "paper_gpu/ptx/counts.h"

namespace gradmill::paper::ptx {
namespace {

// After this many instructions, a warp that spins yields to others.
constexpr uint64_t kTurn = 1 << 16;

// Where the chosen group runs until another group is scheduled.
struct Turn {
  size_t group;
  uint32_t limit;
};

void join_groups(std::vector<LaneGroup>& groups) {
  for (size_t k = 0; k < groups.size(); ++k) {
    for (size_t n = k + 1; n < groups.size();) {
      if (groups[n].pc != groups[k].pc) {
        ++n;
        continue;
      }
      groups[k].mask |= groups[n].mask;
      groups[k].blocked = false;
      groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(n));
    }
  }
}

// Chooses the group that is furthest back among those that are not blocked.
Turn choose(Warp& warp, const Instruction* code) {
  auto& groups = warp.groups;
  if (groups.size() > 1) join_groups(groups);
  Turn turn{SIZE_MAX, UINT32_MAX};
  for (size_t k = 0; k < groups.size(); ++k) {
    if (!groups[k].blocked && (turn.group == SIZE_MAX || groups[k].pc < groups[turn.group].pc)) turn.group = k;
  }
  if (turn.group == SIZE_MAX) {
    warp.current = &code[groups[0].pc];
    fail(warp, groups[0].mask, "lanes wait here for other lanes of their warp, which never come");
  }
  for (size_t k = 0; k < groups.size(); ++k) {
    if (groups[k].pc > groups[turn.group].pc) turn.limit = std::min(turn.limit, groups[k].pc);
  }
  return turn;
}

void end_lanes(Warp& warp, size_t group, uint32_t next, uint32_t ended) {
  auto& groups = warp.groups;
  warp.live &= ~ended;
  groups[group].pc = next;
  groups[group].mask &= ~ended;
  if (groups[group].mask == 0) groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(group));
  for (LaneGroup& each : groups) each.blocked = false;  // some may have waited for these lanes
}

// Lanes that name the same mask act together, one group after the other. False if a lane is still missing.
bool run_collective(Warp& warp, const Instruction& i, uint32_t taking) {
  if (i.e == kNoSlot) {
    if (taking != warp.live) return false;
    i.run(warp, i, taking);
    return true;
  }
  const auto* const named = warp.at<uint32_t>(i.e);
  uint32_t parts[kLanes];
  size_t num_parts = 0;
  for (uint32_t left = taking; left != 0; left &= ~parts[num_parts++]) {
    const uint32_t names = named[std::countr_zero(left)];
    uint32_t part = 0;
    for (int lane = 0; lane < kLanes; ++lane) part |= uint32_t{named[lane] == names} << lane;
    part &= left;
    if ((part & ~names) != 0) fail(warp, part & ~names, "a lane comes here that is not in its own mask of lanes");
    if ((names & warp.live & ~part) != 0) return false;
    parts[num_parts] = part;
  }
  for (size_t n = 0; n < num_parts; ++n) i.run(warp, i, parts[n]);
  return true;
}

enum class Next { same_group, choose_again, leave };

void count(Warp& warp, const Instruction& i, uint32_t taking) {
  ++warp.issued.warp_instructions;
  ++warp.issued.by_unit[static_cast<size_t>(i.unit)];
  warp.issued.lane_instructions += static_cast<uint64_t>(std::popcount(taking));
}
void take_back(Warp& warp, const Instruction& i, uint32_t taking) {
  --warp.issued.warp_instructions;
  --warp.issued.by_unit[static_cast<size_t>(i.unit)];
  warp.issued.lane_instructions -= static_cast<uint64_t>(std::popcount(taking));
}

// Polls. What the loop issued since the last failed poll is not counted.
void ask(Warp& warp, const Instruction& i, uint32_t pc, uint32_t taking) {
  if (warp.asks_again && warp.asked == pc) warp.issued = warp.before_turn;
  i.run(warp, i, taking);
  warp.asked = warp.polls ? pc : Warp::kNothing;
}

// Everything except plain instructions and branches.
Next run_special(Warp& warp, const Instruction& i, size_t group, uint32_t& pc, uint32_t taking) {
  LaneGroup& own = warp.groups[group];
  warp.current = &i;
  if (i.flow == Flow::exit) {
    if (taking == 0) {
      ++pc;
      return Next::same_group;
    }
    end_lanes(warp, group, pc + 1, taking);
    return Next::choose_again;
  }
  if (i.flow == Flow::poll) {
    if (taking != 0) ask(warp, i, pc, taking);
    ++pc;
    if (!warp.polls) return Next::same_group;
    own.pc = pc;
    return Next::leave;
  }
  if (taking == 0) {
    ++pc;
    return Next::same_group;
  }
  const bool collective = i.flow == Flow::collective;
  if (collective ? !run_collective(warp, i, taking) : taking != warp.live) {
    take_back(warp, i, taking);
    own.pc = pc;
    own.blocked = true;
    return Next::choose_again;
  }
  if (collective) {
    ++pc;
    return Next::same_group;
  }
  const bool goes_on = arrive(warp, i, taking);
  if (goes_on) {
    ++pc;
    return Next::same_group;
  }
  if (warp.polls) take_back(warp, i, taking);
  own.pc = warp.polls ? pc : pc + 1;  // a barrier that is polled again, or one that wakes the warp
  return Next::leave;
}

}  // namespace

void run_warp(Warp& warp) {
  const Instruction* const code = grid_of(warp).kernel.code.data();
  const uint64_t last = warp.issued.warp_instructions + kTurn;
  while (!warp.groups.empty() && warp.issued.warp_instructions < last) {
    const auto [group, limit] = choose(warp, code);
    uint32_t pc = warp.groups[group].pc;
    const uint32_t mask = warp.groups[group].mask;
    warp.asks_again = warp.asked != Warp::kNothing && pc == warp.asked + 1;
    if (warp.asks_again) warp.before_turn = warp.issued;
    for (;;) {
      if (pc == limit) {
        warp.groups[group].pc = pc;
        break;
      }
      const Instruction& i = code[pc];
      uint32_t taking = mask;
      if (i.guard != kNoSlot) taking &= predicate_of(warp, i.guard, i.guard_negated);
      count(warp, i, taking);
      if (!i.of_operands.empty() && taking != 0) check_products(warp, i, taking);
      if (i.flow == Flow::plain) {
        warp.current = &i;
        if (taking != 0) i.run(warp, i, taking);
        ++pc;
        continue;
      }
      if (i.flow == Flow::branch) {
        if (taking == 0) {
          ++pc;
          continue;
        }
        if (taking == mask) {
          const bool back = i.target <= pc;
          pc = i.target;
          if (warp.groups.size() == 1 && (!back || warp.issued.warp_instructions < last)) continue;
          warp.groups[group].pc = pc;
          break;
        }
        warp.groups[group].pc = pc + 1;
        warp.groups[group].mask = mask & ~taking;
        warp.groups.push_back({i.target, taking, false});
        break;
      }
      const Next next = run_special(warp, i, group, pc, taking);
      if (next == Next::leave) return;
      if (next == Next::choose_again) break;
    }
  }
}

}  // namespace gradmill::paper::ptx
