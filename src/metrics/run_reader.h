// SPDX-License-Identifier: Apache-2.0
// Reads metrics.jsonl back.
#pragma once

#include <filesystem>
#include <vector>

#include "metrics/record.h"

namespace gradmill {

struct RunRecord {
  std::vector<StepMetrics> steps;
  std::vector<EvalMetrics> evals;
  int64_t unreadable_lines = 0;  // a last line that a crash cut short is not counted: nothing is wrong with the rest
};

// Null becomes kUnknown; kinds and keys that are not known are skipped. Throws a data_error when there is no such file.
RunRecord read_metrics(const std::filesystem::path& jsonl);

}  // namespace gradmill
