// SPDX-License-Identifier: Apache-2.0
// The GPUs of this machine.
#pragma once

#include <vector>

#include "core/device_spec.h"

namespace gradmill::cuda {

// What the driver reports, with the catalogue's rates where the model is known. Empty without a GPU, without a driver,
// or in a build without CUDA.
std::vector<DeviceSpec> present_devices();

}  // namespace gradmill::cuda
