// SPDX-License-Identifier: Apache-2.0
// What this machine offers a run, and what is missing, for users and for bug reports.
#pragma once

#include <filesystem>
#include <string>

#include "cuda/report.h"

namespace gradmill {

struct HardwareReport {
  std::string build;  // version, commit, compiler
  std::string cpu, simd;
  int cores = 0;
  size_t memory_bytes = 0, memory_available = 0;  // 0: unknown
  std::filesystem::path runs_folder;
  size_t disk_bytes = 0, disk_available = 0;  // where runs are written; 0: unknown
  cuda::Report cuda;
};

HardwareReport hardware_report(const std::filesystem::path& runs_folder);

// The types that the matrix units of a GPU multiply, by its compute capability.
struct PrecisionSupport {
  bool fp16 = false, bf16 = false, tf32 = false, fp8 = false;
};
PrecisionSupport precision_support(int compute_capability);

std::string hardware_text(const HardwareReport& report);
std::string hardware_json(const HardwareReport& report);

}  // namespace gradmill
