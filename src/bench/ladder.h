// SPDX-License-Identifier: Apache-2.0
// The ladder: how much each optimisation gives a user's own model on this device, and whether it changes the result.
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
  std::vector<std::string> settings;  // over the user's, each key once
  // What no setting switches by itself.
  std::function<void(SessionOptions&)> adjust = [](SessionOptions&) {};
  std::string unavailable;  // why this device does not have it; then it is not run
};

struct LadderRungs {
  std::vector<Rung> climb;    // each adds one thing to the one before, the slowest first; the last save memory
  std::vector<Rung> all_but;  // everything on, one thing off
  std::string everything;     // name of the rung in `climb` that `all_but` is compared with
};
// `base` holds the user's settings. The rungs differ by device.
LadderRungs ladder_rungs(const RunConfig& base, const DeviceSpec& device);

struct RungResult {
  std::string name;
  std::vector<std::string> settings;
  std::string failure;                    // why there is no result; empty when there is
  std::vector<double> tokens_per_second;  // the median step's, one for each repeat
  size_t memory_bytes = 0;                // slab and library workspaces
  size_t driver_bytes = 0;                // all that is used on the device; 0 where there is no driver to ask
  double loss = 0;                        // mean over the timed steps
  double grad_norm = 0;                   // of the first step
  std::vector<std::string> notes;

  bool ran() const { return failure.empty(); }
  double median() const;
  // Half of the 95% confidence interval of the mean, by Student's t; NaN for a single repeat.
  double half_interval() const;
};

// A rung computes the same as the first one that ran, up to rounding.
struct Parity {
  // The mean loss of untrained models on random tokens moves by far less from fp32 to bf16.
  static constexpr double kLossTolerance = 0.02;
  // The gradient of the same weights and batch: also tells a wrong backward, which hardly moves a loss in few steps.
  static constexpr double kGradTolerance = 0.05;

  double loss_difference = 0;  // in nats, without sign
  double grad_difference = 0;  // as a fraction, without sign
  bool ok() const { return loss_difference <= kLossTolerance && grad_difference <= kGradTolerance; }
};
Parity parity(const RungResult& rung, const RungResult& reference);

struct LadderOptions {
  int64_t steps = 10;  // timed for each repeat, after a warm-up
  int64_t repeats = 3;
  std::function<void(const RungResult&)> progress = [](const RungResult&) {};  // as each rung ends
};

struct Ladder {
  std::string device, model;  // for people
  int64_t steps = 0, repeats = 0;
  std::vector<RungResult> climb, all_but;
  std::string everything;

  // What parity is judged by; null if no rung ran.
  const RungResult* reference() const;
};

// A rung that does not fit or fails has a reason in its result: it never ends the ladder.
Ladder run_ladder(const RunConfig& base, int64_t vocab, const LadderOptions& options);

std::string ladder_markdown(const Ladder& ladder);
std::string ladder_json(const Ladder& ladder);
// One line, without a break: the rung and its speed, or why it has none.
std::string rung_line(const RungResult& result);

}  // namespace gradmill
