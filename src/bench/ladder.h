// SPDX-License-Identifier: Apache-2.0
// The ladder: how much each optimisation speeds up a user's own model on this device, and whether it changes the
// result.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "session/session.h"

namespace gradmill {

// One way to train.
struct Rung {
  std::string name;
  std::vector<std::string> settings;  // override the user's; each key once
  // Switches what no setting controls by itself.
  std::function<void(SessionOptions&)> adjust = [](SessionOptions&) {};
  std::string unavailable;  // why this device cannot run it; empty if it can
};

struct LadderRungs {
  std::vector<Rung> climb;    // each adds one thing to the rung before it, slowest first; the last ones save memory
  std::vector<Rung> all_but;  // everything on except for one thing
  std::string everything;     // name of the rung in `climb` that `all_but` is compared with
};
// `base` holds the user's settings. The rungs differ by device.
LadderRungs ladder_rungs(const RunConfig& base, const DeviceSpec& device);

struct RungResult {
  std::string name;
  std::vector<std::string> settings;
  std::string failure;                    // why there is no result; empty if there is one
  std::vector<double> tokens_per_second;  // of the median step, one value per repeat
  size_t memory_bytes = 0;                // slab and library workspaces
  size_t driver_bytes = 0;                // all memory used on the device; 0 if no driver can tell
  double loss = 0;                        // mean over the timed steps
  double grad_norm = 0;                   // of the first step
  std::vector<std::string> notes;

  bool ran() const { return failure.empty(); }
  double median() const;
  // Half of the 95% confidence interval of the mean, by Student's t; NaN for a single repeat.
  double half_interval() const;
};

// The tolerances within which a rung must agree with the first one that ran.
struct Parity {
  // From fp32 to bf16 the mean loss of an untrained model on random tokens changes by far less than this.
  static constexpr double kLossTolerance = 0.02;
  // For the same weights and batch. Also reveals a wrong backward pass, which hardly changes the loss in a few steps.
  static constexpr double kGradTolerance = 0.05;

  double loss_difference = 0;  // absolute, in nats
  double grad_difference = 0;  // absolute, as a fraction
  bool ok() const { return loss_difference <= kLossTolerance && grad_difference <= kGradTolerance; }
};
Parity parity(const RungResult& rung, const RungResult& reference);

struct LadderOptions {
  int64_t steps = 10;  // timed for each repeat, after a warm-up
  int64_t repeats = 3;
  std::function<void(const RungResult&)> progress = [](const RungResult&) {};  // called after each rung
};

struct Ladder {
  std::string device, model;  // readable names
  int64_t steps = 0, repeats = 0;
  std::vector<RungResult> climb, all_but;
  std::string everything;

  // The rung that the others are compared with; null if no rung ran.
  const RungResult* reference() const;
};

// A rung that does not fit or fails does not end the ladder; its result has the reason.
Ladder run_ladder(const RunConfig& base, int64_t vocab, const LadderOptions& options);

std::string ladder_markdown(const Ladder& ladder);
std::string ladder_json(const Ladder& ladder);
// One line, without a line break: the rung and its speed, or why it has none.
std::string rung_line(const RungResult& result);

}  // namespace gradmill
