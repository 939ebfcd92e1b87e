// SPDX-License-Identifier: Apache-2.0
// What this machine has of CUDA: driver, runtime, libraries, GPUs; and why something is missing.
#pragma once

#include <string>
#include <vector>

#include "core/device_spec.h"
#include "cuda/nvml.h"

namespace gradmill::cuda {

struct LibraryReport {
  std::string name;
  std::string version;  // empty: it cannot be used
  std::string reason;   // why not
};

struct GpuReport {
  DeviceSpec spec;
  std::string unusable;             // why this binary cannot run on it; empty: it can
  size_t free_bytes = 0;            // 0: unknown
  bool has_nvml = false;            // the driver's management library answers for it
  std::optional<GpuSample> sample;  // what that says
};

struct Report {
  bool with_cuda = false;   // this build can use GPUs
  std::string no_gpu;       // why `gpus` is empty
  std::string driver;       // "580.82.07"; empty: unknown
  std::string driver_cuda;  // the newest CUDA the driver can run, "13.0"; empty: there is no driver
  std::string runtime;      // the CUDA this binary was built with
  std::string targets;      // the compute capabilities it has code for
  std::vector<LibraryReport> libraries;
  std::vector<GpuReport> gpus;
};

// Looks, and changes nothing; never throws for what is missing.
Report report();

}  // namespace gradmill::cuda
