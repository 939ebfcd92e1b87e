// SPDX-License-Identifier: Apache-2.0
// The state of CUDA on this machine: driver, runtime, libraries and GPUs, and why something is missing.
#pragma once

#include <string>
#include <vector>

#include "core/device_spec.h"
#include "cuda/nvml.h"

namespace gradmill::cuda {

struct LibraryReport {
  std::string name;
  std::string version;  // empty if it cannot be used
  std::string reason;   // why it cannot be used
};

struct GpuReport {
  DeviceSpec spec;
  std::string unusable;             // why this binary cannot run on it; empty if it can
  size_t free_bytes = 0;            // 0: unknown
  bool has_nvml = false;            // NVML reports about this GPU
  std::optional<GpuSample> sample;  // the values NVML reports
};

struct Report {
  bool with_cuda = false;   // this build can use GPUs
  std::string no_gpu;       // why `gpus` is empty
  std::string driver;       // "580.82.07"; empty: unknown
  std::string driver_cuda;  // the newest CUDA that the driver supports, "13.0"; empty without a driver
  std::string runtime;      // the CUDA this binary was built with
  std::string targets;      // the compute capabilities that the binary has code for
  std::vector<LibraryReport> libraries;
  std::vector<GpuReport> gpus;
};

// Changes nothing, and never throws because something is missing.
Report report();

}  // namespace gradmill::cuda
