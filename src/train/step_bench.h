// SPDX-License-Identifier: Apache-2.0
// Times whole training steps of known shapes, to compare with other trainers.
#pragma once

#include <string>

#include "config/run_config.h"
#include "core/cost.h"

namespace gradmill {

struct StepBenchResult {
  double median_ms = 0, fastest_ms = 0;
  double tokens_per_second = 0;  // at the median
  Ledger ledger;                 // of the timed steps together
};

// The settings of a named case: nano (4 layers, 128 wide, context 64, batch 12) or char (6, 384, 256, 16).
RunConfig bench_case(const std::string& name);
// Random tokens, batches drawn as in training; `steps` timed after a warm-up. With `profile` each op is timed too.
StepBenchResult bench_steps(const RunConfig& config, int64_t steps, bool profile);

}  // namespace gradmill
