// SPDX-License-Identifier: Apache-2.0
#include "cuda/report.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "cuda/code_targets.h"
#include "cuda/cublaslt.h"
#include "cuda/devices.h"
#include "cuda/library.h"

namespace gradmill::cuda {
namespace {

// Formats version numbers of cuBLAS and cuDNN: 91900 is 9.19.0.
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

GpuReport gpu_report(const FoundGpu& gpu, std::string& driver) {
  const int index = gpu.spec.index;
  GpuReport report{.spec = gpu.spec, .unusable = gpu.unusable};
  size_t free = 0, total = 0;
  if (cudaSetDevice(index) == cudaSuccess && cudaMemGetInfo(&free, &total) == cudaSuccess) report.free_bytes = free;
  cudaGetLastError();  // a GPU in exclusive use by another process is a valid result: clear the error
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
  int driver_cuda = 0, runtime = 0;
  cudaDriverGetVersion(&driver_cuda);
  cudaRuntimeGetVersion(&runtime);
  report.driver_cuda = cuda_version(driver_cuda);
  report.runtime = cuda_version(runtime);
  report.targets = describe_targets(GRADMILL_CUDA_TARGETS);
  report.libraries = {cublaslt_report(), cudnn_report()};
  for (const FoundGpu& gpu : found_gpus()) report.gpus.push_back(gpu_report(gpu, report.driver));
  if (report.gpus.empty()) {
    report.no_gpu = why_no_gpu();
  } else {
    cudaSetDevice(0);
  }
  return report;
}

}  // namespace gradmill::cuda
