// SPDX-License-Identifier: Apache-2.0
// Compares each op of a training step of the user's model with the best the device can do. Both are measured on the
// spot.
#pragma once

#include <string>
#include <vector>

#include "config/run_config.h"
#include "core/cost.h"
#include "session/session.h"

namespace gradmill {

// The best rates that were measured, as opposed to the vendor's.
struct Ceilings {
  double bandwidth = 0;     // bytes/s of a large copy, reads and writes together
  double matrix_flops = 0;  // of a large square GEMM in the run's precision
  int64_t product_size = 0;
};
Ceilings measure_ceilings(const SessionOptions& options);

struct OpBench {
  std::string device, precision;
  Ceilings ceilings;
  int64_t steps = 0;
  Ledger ledger;       // all timed steps together, by op and shape
  double step_ms = 0;  // median of normal steps: not profiled, and replayed as graphs if training does so
  std::vector<std::string> notes;
};

// Here a step is one micro-batch and one update.
OpBench bench_ops(RunConfig config, int64_t vocab, int64_t steps);

// A table, slowest op first.
std::string describe(const OpBench& bench);

}  // namespace gradmill
