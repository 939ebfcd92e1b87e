// SPDX-License-Identifier: Apache-2.0
// The GPUs of this machine.
#pragma once

#include <string>
#include <vector>

#include "core/device_spec.h"

namespace gradmill::cuda {

struct FoundGpu {
  DeviceSpec spec;
  std::string unusable;  // why this binary cannot run on it; empty: it can
};

// All that the driver shows. None without a driver, or in a build without CUDA.
std::vector<FoundGpu> found_gpus();
// Those of them that this binary can run on.
std::vector<DeviceSpec> present_devices();
// Why there are none of those; empty: there are.
std::string why_no_gpu();
// As CUDA counts: 13010 is "13.1", and 0 nothing. For builds with CUDA.
std::string cuda_version(int number);

}  // namespace gradmill::cuda
