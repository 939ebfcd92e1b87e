// SPDX-License-Identifier: Apache-2.0
// Times whole training steps of known shapes, to compare with other trainers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "core/cost.h"
#include "session/session.h"

namespace gradmill {

// A named model and batch, as settings that override the defaults.
struct BenchCase {
  std::string name;
  int64_t vocab;
  std::vector<std::string> overrides;
};
// Throws a usage error that lists the names.
const BenchCase& bench_case(const std::string& name);
std::vector<std::string> bench_case_names();

struct StepBenchResult {
  double median_ms = 0, fastest_ms = 0, slowest_ms = 0;
  double tokens_per_second = 0;  // of the median step
  double first_step_s = 0;       // from the start of the process to the end of the first step
  double loss = 0;               // mean of the last step
  double mean_loss = 0;          // over the timed steps
  double first_grad_norm = 0;    // of the very first step, when weights are still the same in every run
  size_t memory_bytes = 0;       // slab and library workspaces
  size_t driver_bytes = 0;       // all memory used on the device, according to its driver
  Ledger ledger;                 // all timed steps together
  std::vector<std::string> notes;
};

struct StepBenchOptions {
  int64_t steps = 50;     // timed, after a warm-up
  bool profile = false;   // also time each op; steps are then not replayed as graphs
  bool by_shape = false;  // profile GEMMs of different shapes separately
  std::function<void(SessionOptions&)> adjust = [](SessionOptions&) {};  // changes what no setting controls
};

// Trains on random tokens, in batches drawn as in training.
StepBenchResult bench_steps(const RunConfig& config, int64_t vocab, const StepBenchOptions& bench);

}  // namespace gradmill
