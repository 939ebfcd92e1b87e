// SPDX-License-Identifier: Apache-2.0
// Happened-before, by vector clocks. Actors are the warps of a cluster and, for each barrier in shared memory, the copy
// engine's copies that report there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace gradmill::paper::ptx {

// What an actor knows to have happened: of each actor of its cluster, and of other clusters that atomics told it about.
// An actor's own entry is the time of its last synchronisation: what it does now has that time + 1.
struct Knowledge {
  std::vector<uint32_t> clock;
  std::map<uint64_t, std::vector<uint32_t>> others;  // by cluster

  uint32_t of(uint32_t actor) const { return actor < clock.size() ? clock[actor] : 0; }
  uint32_t of(uint64_t cluster, uint32_t actor) const {
    const auto found = others.find(cluster);
    return found == others.end() || actor >= found->second.size() ? 0 : found->second[actor];
  }
  void set(uint32_t actor, uint32_t time) {
    if (clock.size() <= actor) clock.resize(actor + 1);
    clock[actor] = time;
  }
  void join(const Knowledge& from) {
    join(clock, from.clock);
    for (const auto& [cluster, times] : from.others) join(others[cluster], times);
  }
  void clear() {
    clock.clear();
    others.clear();
  }

  static void join(std::vector<uint32_t>& to, const std::vector<uint32_t>& from) {
    if (to.size() < from.size()) to.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
  }
};

}  // namespace gradmill::paper::ptx
