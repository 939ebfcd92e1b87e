// SPDX-License-Identifier: Apache-2.0
// The GPUs of this machine.
#pragma once

#include <string>
#include <vector>

#include "core/device_spec.h"

namespace gradmill::cuda {

struct FoundGpu {
  DeviceSpec spec;
  std::string unusable;  // why this binary cannot run on it; empty if it can
};

// All GPUs that the driver shows. Empty without a driver, or in a build without CUDA.
std::vector<FoundGpu> found_gpus();
// The found GPUs that this binary can run on.
std::vector<DeviceSpec> present_devices();
// Why present_devices() is empty; empty if it is not.
std::string why_no_gpu();
// Formats CUDA's version numbers: 13010 is "13.1", and 0 is empty. For builds with CUDA.
std::string cuda_version(int number);

}  // namespace gradmill::cuda
