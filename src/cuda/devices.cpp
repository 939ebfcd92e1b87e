// SPDX-License-Identifier: Apache-2.0
#include "cuda/devices.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cctype>

namespace gradmill::cuda {
namespace {

std::string letters_and_digits(std::string_view text) {
  std::string kept;
  for (char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      kept += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return kept;
}

// "NVIDIA GeForce RTX 4090" contains the catalogue's "rtx4090"; the longest such name is the closest.
const DeviceSpec* find_in_catalogue(const cudaDeviceProp& properties) {
  const std::string title = letters_and_digits(properties.name);
  const DeviceSpec* best = nullptr;
  for (const DeviceSpec& spec : gpu_catalogue()) {
    const std::string name = letters_and_digits(spec.name.substr(0, spec.name.find('-')));
    const bool fits = title.find(name) != std::string::npos && properties.totalGlobalMem > spec.memory_bytes / 10 * 9;
    if (fits && (best == nullptr || spec.memory_bytes >= best->memory_bytes)) best = &spec;
  }
  return best;
}

DeviceSpec describe(const cudaDeviceProp& properties) {
  const DeviceSpec* known = find_in_catalogue(properties);
  DeviceSpec spec = known ? *known : DeviceSpec{};
  spec.kind = DeviceKind::cuda;
  spec.title = properties.name;
  if (!known) spec.name = letters_and_digits(properties.name);
  spec.compute_capability = properties.major * 10 + properties.minor;
  spec.num_units = properties.multiProcessorCount;
  spec.memory_bytes = properties.totalGlobalMem;
  return spec;
}

}  // namespace

std::vector<DeviceSpec> present_devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();  // no driver is an answer, not an error to keep
    return {};
  }
  std::vector<DeviceSpec> devices;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, index) == cudaSuccess) devices.push_back(describe(properties));
  }
  return devices;
}

}  // namespace gradmill::cuda
