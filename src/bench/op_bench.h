// SPDX-License-Identifier: Apache-2.0
// Each op of one training step of a user's model beside what the device can do at best, both measured here and now.
#pragma once

#include <string>
#include <vector>

#include "config/run_config.h"
#include "core/cost.h"
#include "session/session.h"

namespace gradmill {

// What a device reaches at best, as opposed to what its vendor says.
struct Ceilings {
  double bandwidth = 0;     // bytes/s, of a large copy: reads and writes
  double matrix_flops = 0;  // of a large square product in the run's precision
  int64_t product_size = 0;
};
Ceilings measure_ceilings(const SessionOptions& options);

struct OpBench {
  std::string device, precision;
  Ceilings ceilings;
  int64_t steps = 0;
  Ledger ledger;       // of the timed steps together, by op and shape
  double step_ms = 0;  // the median of steps as they are trained: not profiled, replayed as graphs where they are
  std::vector<std::string> notes;
};

// A step here is one micro-batch and one update.
OpBench bench_ops(RunConfig config, int64_t vocab, int64_t steps);

// A table with the slowest op first.
std::string describe(const OpBench& bench);

}  // namespace gradmill
