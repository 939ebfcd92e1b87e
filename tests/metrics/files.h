// SPDX-License-Identifier: Apache-2.0
// Files and records shared by the tests of metrics.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/errors.h"
#include "support/temporary_folder.h"
#include "metrics/record.h"

namespace gradmill::test {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<std::string> read_lines(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// The same numbers for the same step, whichever run reports them.
inline StepMetrics step_at(int64_t step, double loss_offset = 0) {
  return {.step = step,
          .epoch = double(step) / 8,
          .loss = 4.0 / double(step) + loss_offset,
          .lr = 0.001,
          .grad_norm = 0.5,
          .tokens_per_s = 1000,
          .samples_per_s = 15.625,
          .mfu = 0.25,
          .tokens_seen = static_cast<uint64_t>(step) * 64,
          .step_ms = 64,
          .memory_bytes = size_t{3} << 20,
          .loader_stall = 0.125};
}

inline EvalMetrics eval_at(int64_t step, bool best = true) {
  return {.step = step,
          .epoch = double(step) / 8,
          .loss = 5.0 / double(step + 1),
          .perplexity = 2,
          .seconds = 0.5,
          .best = best};
}

}  // namespace gradmill::test
