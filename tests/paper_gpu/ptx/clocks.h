// SPDX-License-Identifier: Apache-2.0
// The happened-before relation as vector clocks. Actors are the warps of a cluster and, for each barrier in shared
// memory, the copy engine's copies that signal it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace gradmill::paper::ptx {

// What an actor knows to have happened, for each actor of its cluster, and for other clusters through atomics. An
// actor's own entry is the time of its last synchronisation of any kind; its current actions have that time + 1.
// Whether its lanes know of each other is tracked separately: see Warp::lanes_met.
struct Knowledge {
  using Lanes = std::array<uint32_t, 32>;
  std::vector<uint32_t> clock;
  std::map<uint32_t, Lanes> lanes;  // by actor: what is known only of single lanes, which arrived separately
  std::map<uint64_t, std::vector<uint32_t>> others;  // by cluster

  uint32_t of(uint32_t actor) const { return actor < clock.size() ? clock[actor] : 0; }
  uint32_t of(uint64_t cluster, uint32_t actor) const {
    const auto found = others.find(cluster);
    return found == others.end() || actor >= found->second.size() ? 0 : found->second[actor];
  }
  // Whether anything that the actor did from then on is known.
  bool has_heard(uint32_t actor, uint32_t since) const {
    if (of(actor) >= since) return true;
    const auto found = lanes.find(actor);
    return found != lanes.end() && *std::max_element(found->second.begin(), found->second.end()) >= since;
  }
  bool of_lane(uint32_t actor, uint32_t lane, uint32_t time) const {
    const auto found = lanes.find(actor);
    return found != lanes.end() && lane < found->second.size() && found->second[lane] >= time;
  }
  void set(uint32_t actor, uint32_t time) {
    if (clock.size() <= actor) clock.resize(actor + 1);
    clock[actor] = time;
  }
  void set_lanes(uint32_t actor, uint32_t mask, uint32_t time) {
    Lanes& times = lanes[actor];
    for (uint32_t lane = 0; lane < times.size(); ++lane) {
      if (mask >> lane & 1) times[lane] = time;
    }
  }
  void join(const Knowledge& from) {
    join(clock, from.clock);
    for (const auto& [actor, times] : from.lanes) {
      Lanes& to = lanes[actor];
      for (size_t lane = 0; lane < to.size(); ++lane) to[lane] = std::max(to[lane], times[lane]);
    }
    for (const auto& [cluster, times] : from.others) join(others[cluster], times);
  }
  void clear() {
    clock.clear();
    lanes.clear();
    others.clear();
  }

  static void join(std::vector<uint32_t>& to, const std::vector<uint32_t>& from) {
    if (to.size() < from.size()) to.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
  }
};

}  // namespace gradmill::paper::ptx
