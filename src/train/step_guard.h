// SPDX-License-Identifier: Apache-2.0
// StepGuard: decides what to do about steps that are not finite or whose loss jumps.
#pragma once

#include <limits>

#include "config/run_config.h"
#include "run/train_state.h"

namespace gradmill {

class StepGuard {
 public:
  explicit StepGuard(const TrainingConfig& config) : config_(config) {}

  // The mean loss above which a step is a spike and its update is skipped.
  float loss_limit(const TrainState& state) const {
    const bool on = watches_spikes() && state.running_loss > 0;
    return on ? static_cast<float>(config_.spike_factor * state.running_loss) : std::numeric_limits<float>::infinity();
  }
  bool watches_spikes() const { return config_.spike_factor > 0; }

  // Adds a step to the state. Returns true after so many consecutive bad steps that the run must roll back.
  bool must_roll_back(TrainState& state, bool good, double loss) const {
    if (!good) return ++state.bad_steps >= config_.nan_patience;
    constexpr double kMemory = 0.98;
    state.bad_steps = 0;
    state.running_loss = state.running_loss == 0 ? loss : kMemory * state.running_loss + (1 - kMemory) * loss;
    return false;
  }

 private:
  TrainingConfig config_;
};

}  // namespace gradmill
