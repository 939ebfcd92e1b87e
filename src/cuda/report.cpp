// SPDX-License-Identifier: Apache-2.0
#include "cuda/report.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "cuda/cublaslt.h"
#include "cuda/devices.h"
#include "cuda/library.h"

namespace gradmill::cuda {
namespace {

// As CUDA counts: 13010 is 13.1.
std::string cuda_version(int number) {
  return number == 0 ? std::string() : fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

// As cuBLAS and cuDNN count: 91900 is 9.19.0.
std::string library_version(size_t number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

LibraryReport cublaslt_report() {
  const CublasLt library;
  if (!library.error.empty()) return {"cuBLASLt", "", library.error};
  return {"cuBLASLt", library_version(library.version()), ""};
}

LibraryReport cudnn_report() {
  const Library library = Library::open({"libcudnn.so.9"});
  if (!library.is_open()) return {"cuDNN", "", library.error()};
  auto* const version = library.function<size_t()>("cudnnGetVersion");
  if (version == nullptr) return {"cuDNN", "", "libcudnn.so.9 has no cudnnGetVersion"};
  return {"cuDNN", library_version(version()), ""};
}

GpuReport gpu_report(const DeviceSpec& spec, int index, std::string& driver) {
  GpuReport report{.spec = spec};
  size_t free = 0, total = 0;
  if (cudaSetDevice(index) == cudaSuccess && cudaMemGetInfo(&free, &total) == cudaSuccess) report.free_bytes = free;
  cudaGetLastError();  // a GPU that others hold alone is an answer too
  if (std::optional<Nvml> nvml = Nvml::open(index)) {
    report.has_nvml = true;
    report.sample = nvml->sample();
    driver = nvml->driver_version();
  }
  return report;
}

}  // namespace

Report report() {
  Report report{.with_cuda = true};
  int driver_cuda = 0, runtime = 0, count = 0;
  cudaDriverGetVersion(&driver_cuda);
  cudaRuntimeGetVersion(&runtime);
  report.driver_cuda = cuda_version(driver_cuda);
  report.runtime = cuda_version(runtime);
  report.libraries = {cublaslt_report(), cudnn_report()};
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess || count == 0) {
    report.no_gpu = status != cudaSuccess ? cudaGetErrorString(status) : "the driver shows no GPU";
    cudaGetLastError();
    return report;
  }
  const std::vector<DeviceSpec> specs = present_devices();
  for (size_t i = 0; i < specs.size(); ++i) {
    report.gpus.push_back(gpu_report(specs[i], static_cast<int>(i), report.driver));
  }
  if (specs.empty()) report.no_gpu = "the driver shows a GPU but does not describe it";
  cudaSetDevice(0);
  return report;
}

}  // namespace gradmill::cuda
