// SPDX-License-Identifier: Apache-2.0
// Reads metrics.jsonl.
#pragma once

#include <filesystem>
#include <vector>

#include "metrics/record.h"

namespace gradmill {

struct RunRecord {
  std::vector<StepMetrics> steps;
  std::vector<EvalMetrics> evals;
  int64_t unreadable_lines = 0;  // not counting a last line that a crash cut short, which does not affect the rest
};

// Null becomes kUnknown. Unknown kinds and keys are skipped. Throws a data_error if the file does not exist.
RunRecord read_metrics(const std::filesystem::path& jsonl);

}  // namespace gradmill
