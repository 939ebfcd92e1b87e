// SPDX-License-Identifier: Apache-2.0
#include "cuda/devices.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "core/gpu_catalogue.h"
#include "cuda/code_targets.h"

namespace gradmill::cuda {
namespace {

// Returns 0 if the driver does not know.
double attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, which, index) != cudaSuccess) cudaGetLastError();
  return value;
}

GpuTraits traits_of(const cudaDeviceProp& properties, int index) {
  constexpr double kKilohertz = 1e3, kBitsPerByte = 8, kTransfersPerCycle = 2;
  return {.title = properties.name,
          .compute_capability = properties.major * 10 + properties.minor,
          .num_units = properties.multiProcessorCount,
          .memory_bytes = properties.totalGlobalMem,
          .clock = kKilohertz * attribute(cudaDevAttrClockRate, index),
          .bandwidth = kTransfersPerCycle * kKilohertz * attribute(cudaDevAttrMemoryClockRate, index) *
                       attribute(cudaDevAttrGlobalMemoryBusWidth, index) / kBitsPerByte};
}

}  // namespace

std::string cuda_version(int number) {
  return number == 0 ? std::string() : fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

std::vector<FoundGpu> found_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();  // a missing driver is a valid result: clear the error
    return {};
  }
  std::vector<FoundGpu> gpus;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) continue;
    FoundGpu gpu{.spec = describe_gpu(traits_of(properties, index))};
    gpu.spec.index = index;
    gpu.unusable = why_no_code(GRADMILL_CUDA_TARGETS, gpu.spec.compute_capability);
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

std::vector<DeviceSpec> present_devices() {
  std::vector<DeviceSpec> devices;
  for (const FoundGpu& gpu : found_gpus()) {
    if (gpu.unusable.empty()) devices.push_back(gpu.spec);
  }
  return devices;
}

std::string why_no_gpu() {
  int driver = 0, runtime = 0, count = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (driver == 0) return "this machine has no NVIDIA driver";
  if (status == cudaErrorInsufficientDriver) {
    return fmt::format("the driver is for CUDA {} and this binary for {}: install a newer driver", cuda_version(driver),
                       cuda_version(runtime));
  }
  if (status != cudaSuccess) return cudaGetErrorString(status);
  if (count == 0) return "the driver shows no GPU";
  std::string reasons;
  for (const FoundGpu& gpu : found_gpus()) {
    if (gpu.unusable.empty()) return {};
    reasons += fmt::format("{}{} has {}", reasons.empty() ? "" : "; ", gpu.spec.title, gpu.unusable);
  }
  return reasons.empty() ? "the driver shows a GPU but does not describe it" : reasons;
}

}  // namespace gradmill::cuda
