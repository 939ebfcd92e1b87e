// SPDX-License-Identifier: Apache-2.0
// The GPUs that can be planned for, and what a GPU that is here can do, whether it is one of them or not.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/device_spec.h"

namespace gradmill {

std::span<const DeviceSpec> gpu_catalogue();
// "cpu", or a catalogued name in any case. Throws a usage error that lists the names.
DeviceSpec device_by_name(std::string_view name);

// Bytes that cuBLASLt works in, as NVIDIA recommends: Hopper's kernels, and those of data centre Blackwell, split k
// where they are given room.
size_t library_workspace(int compute_capability);

// What a driver tells of a GPU. Rates of 0 are not known.
struct GpuTraits {
  std::string title;
  int compute_capability = 0, num_units = 0;
  size_t memory_bytes = 0;
  double clock = 0;      // cycles/s of its multiprocessors at their fastest
  double bandwidth = 0;  // bytes/s by its memory's clock and width
};

// With the catalogue's rates if it is there; else with those of its generation's multiprocessors.
DeviceSpec describe_gpu(const GpuTraits& traits);

}  // namespace gradmill
