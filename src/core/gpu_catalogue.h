// SPDX-License-Identifier: Apache-2.0
// The GPUs that can be planned for. Also describes the GPU of this machine, whether it is in the catalogue or not.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/device_spec.h"

namespace gradmill {

std::span<const DeviceSpec> gpu_catalogue();
// "cpu" or a name from the catalogue, in upper or lower case. Throws a usage error that lists the names.
DeviceSpec device_by_name(std::string_view name);

// Workspace bytes for cuBLASLt, as NVIDIA recommends. Kernels for Hopper and data-centre Blackwell split k when they
// have enough workspace.
size_t library_workspace(int compute_capability);

// What the driver reports about a GPU. A rate of 0 is unknown.
struct GpuTraits {
  std::string title;
  int compute_capability = 0, num_units = 0;
  size_t memory_bytes = 0;
  double clock = 0;      // cycles/s of its multiprocessors at the highest clock
  double bandwidth = 0;  // bytes/s from its memory clock and bus width
};

// Uses the catalogue's rates if the GPU is listed, and otherwise the rates of its generation's multiprocessors.
DeviceSpec describe_gpu(const GpuTraits& traits);

}  // namespace gradmill
