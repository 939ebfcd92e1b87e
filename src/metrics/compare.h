// SPDX-License-Identifier: Apache-2.0
// Compares two runs: settings, final and best metrics, curves.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "metrics/run_reader.h"

namespace gradmill {

struct ComparedRun {
  std::string name;
  std::map<std::string, std::string> config;  // for example "training.batch_size" -> "12"
  RunRecord record;
};

// Reads metrics.jsonl from a run's folder. Throws a data_error if it is missing.
ComparedRun load_compared_run(const std::filesystem::path& folder, std::map<std::string, std::string> config);

// A report of at most `width` columns, unless a name or a value is longer.
std::string compare_runs(const ComparedRun& a, const ComparedRun& b, int width = 80);

}  // namespace gradmill
