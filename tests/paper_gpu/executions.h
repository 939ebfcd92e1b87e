// SPDX-License-Identifier: Apache-2.0
// Runs kernels as the environment variables request, and records what ran. docs/paper-gpu.md lists the variables.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "paper_gpu/ptx/kernel.h"
#include "paper_gpu/ptx/run.h"

namespace gradmill::paper {

// Registers a kernel that the binary has for this GPU.
void known_kernel(const std::string& name);
void execute(const ptx::Kernel& kernel, const ptx::Launch& launch, const std::vector<std::byte>& params);

// What this program has executed so far.
struct ExecutionTotals {
  size_t launches = 0;
  uint64_t lane_instructions = 0;
  double cpu_seconds = 0;
};
const ExecutionTotals& execution_totals();

}  // namespace gradmill::paper
