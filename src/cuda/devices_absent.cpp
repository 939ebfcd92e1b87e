// SPDX-License-Identifier: Apache-2.0
// A build without CUDA sees no GPU.
#include "cuda/devices.h"

namespace gradmill::cuda {

std::vector<FoundGpu> found_gpus() { return {}; }
std::vector<DeviceSpec> present_devices() { return {}; }
std::string why_no_gpu() { return "this build has no CUDA ('make CUDA=on' makes one that has)"; }

}  // namespace gradmill::cuda
