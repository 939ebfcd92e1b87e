// SPDX-License-Identifier: Apache-2.0
// A build without CUDA sees no GPU.
#include "cuda/devices.h"

namespace gradmill::cuda {

std::vector<DeviceSpec> present_devices() { return {}; }

}  // namespace gradmill::cuda
