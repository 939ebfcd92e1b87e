// SPDX-License-Identifier: Apache-2.0
// MemoryPlan: a run's memory and work, known before anything is allocated. It records what the step's own code asked
// for on paper, so it equals what the real run uses, to the byte.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/cost.h"

namespace gradmill {

// Steps of different phases never overlap, so they share one region of the slab.
enum class Phase : uint8_t { train, eval, generate, diagnose, load };
inline constexpr int kNumPhases = 5;
std::string_view name_of(Phase phase);

struct ArenaPlan {
  size_t bytes = 0;                // high-water mark
  std::vector<OwnerBytes> owners;  // at that mark
};

struct PhasePlan {
  ArenaPlan saved, scratch;
  Ledger ledger;  // one step
};

// Tensors with the same name in all layers: "layers.*.mlp.hidden".
struct OwnerFamily {
  std::string name;
  size_t bytes = 0;
  int count = 0;
};

struct MemoryPlan {
  DeviceSpec device;
  ArenaPlan persistent;
  ArenaPlan frozen;              // weights in a block beside the slab, which other sessions may read
  bool frozen_is_there = false;  // another session has the block: this one allocates nothing for it
  std::array<PhasePlan, kNumPhases> phases;

  const PhasePlan& phase(Phase p) const { return phases[static_cast<size_t>(p)]; }
  // The activation region: the largest phase.
  size_t activation_bytes() const;
  size_t slab_bytes() const { return persistent.bytes + activation_bytes(); }
  size_t own_frozen_bytes() const { return frozen_is_there ? 0 : frozen.bytes; }
  // What the session allocates.
  size_t allocated_bytes() const { return slab_bytes() + own_frozen_bytes(); }
  // The owners of this memory when it is fullest, largest first.
  std::vector<OwnerFamily> owners() const;
  // Includes what libraries and the driver take.
  size_t total_bytes() const { return allocated_bytes() + device.library_bytes + device.driver_bytes; }
};

// The plan as text: arenas with their largest owners, and each op's work.
std::string describe(const MemoryPlan& plan);

}  // namespace gradmill
