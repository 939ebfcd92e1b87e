// SPDX-License-Identifier: Apache-2.0
// The runtime's functions of kernels: those that a compiler's stubs call to make them known, and launches.
#include <cuda_runtime_api.h>
#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "paper_gpu/paper_gpu.h"
#include "paper_gpu/status.h"
#include "paper_gpu/streams.h"

namespace gradmill::paper {
namespace {

// Without a grant a GPU has 48 KiB for what a launch asks for and what the kernel declares itself. The latter is not
// known here: so everything must be granted.
struct Kernel {
  std::string name;
  size_t granted = 0;  // bytes of shared memory that a launch may ask for
};

struct Kernels {
  std::map<const void*, Kernel> by_stub;
  std::mutex mutex;
};
Kernels& kernels() {
  static Kernels all;
  return all;
}

std::string demangled(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = text != nullptr ? text : name;
  std::free(text);
  return result.substr(0, result.find("(gradmill::"));  // up to the arguments
}

std::string describe(dim3 size) { return fmt::format("{} x {} x {}", size.x, size.y, size.z); }

unsigned cluster_size(const cudaLaunchConfig_t& config) {
  unsigned size = 1;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id != cudaLaunchAttributeClusterDimension) continue;
    size *= attribute.val.clusterDim.x * attribute.val.clusterDim.y * attribute.val.clusterDim.z;
  }
  return size;
}

// For tools/check_launches.py: each kernel with each size of block, and the most shared memory asked for with it, in
// the file that PAPER_LAUNCHES names.
void write_down(const Kernel& kernel, const cudaLaunchConfig_t& config) {
  static std::FILE* const file = [] {
    const char* const path = std::getenv("PAPER_LAUNCHES");
    return path != nullptr ? std::fopen(path, "a") : nullptr;
  }();
  if (file == nullptr) return;
  static std::map<std::pair<std::string, unsigned>, size_t> most;
  const unsigned threads = config.blockDim.x * config.blockDim.y * config.blockDim.z;
  const auto [known, is_new] = most.try_emplace({kernel.name, threads}, config.dynamicSmemBytes);
  if (!is_new && config.dynamicSmemBytes <= known->second) return;
  known->second = config.dynamicSmemBytes;
  std::fprintf(file, "%s %s %u %zu\n", gpu().name.data(), kernel.name.c_str(), threads, config.dynamicSmemBytes);
}

std::string why_not(const cudaLaunchConfig_t& config, const Kernel& kernel) {
  const dim3 &grid = config.gridDim, &block = config.blockDim;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535) {
    return "a grid of " + describe(grid);
  }
  const size_t threads = size_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64) return "a block of " + describe(block);
  if (config.dynamicSmemBytes > kernel.granted) {
    return fmt::format("{} bytes of shared memory, {} granted", config.dynamicSmemBytes, kernel.granted);
  }
  const unsigned cluster = cluster_size(config);
  if (cluster > 1 && gpu().compute_capability < 90) return fmt::format("a cluster of {}", cluster);
  if (cluster > 8 || grid.x % cluster != 0)
    return fmt::format("a cluster of {}, a grid of {}", cluster, describe(grid));
  return {};
}

}  // namespace
}  // namespace gradmill::paper

using namespace gradmill::paper;

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* stub, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  const std::lock_guard lock(kernels().mutex);
  kernels().by_stub[stub].name = name;
}

// Launches by <<< >>> go around the one place that checks them: there are none, and the compiler's stubs are never run.
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) { return refuse("a kernel is launched by its stub"); }
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) {
  return refuse("a kernel is launched by its stub");
}
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) {
  return refuse("a kernel is launched by its stub");
}

cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute attribute, int value) {
  const std::lock_guard lock(kernels().mutex);
  const auto kernel = kernels().by_stub.find(stub);
  if (kernel == kernels().by_stub.end()) return refuse("no such kernel", cudaErrorInvalidDeviceFunction);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (static_cast<size_t>(value) > gpu().shared_kib * 1024) {
    return refuse(fmt::format("{} wants {} bytes of shared memory, a block has {} KiB",
                              demangled(kernel->second.name.c_str()), value, gpu().shared_kib));
  }
  kernel->second.granted = static_cast<size_t>(value);
  return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* stub, void**) {
  ++counts().launches;
  expect_chosen("a kernel is launched");
  counts().most_shared = std::max(counts().most_shared, config->dynamicSmemBytes);
  const std::lock_guard lock(kernels().mutex);
  const auto kernel = kernels().by_stub.find(stub);
  if (kernel == kernels().by_stub.end()) return refuse("no such kernel", cudaErrorInvalidDeviceFunction);
  if (const std::string reason = why_not(*config, kernel->second); !reason.empty()) {
    return refuse(fmt::format("{} is launched with {}", demangled(kernel->second.name.c_str()), reason),
                  cudaErrorInvalidConfiguration);
  }
  write_down(kernel->second, *config);
  return enqueue(config->stream, {});
}

}  // extern "C"
