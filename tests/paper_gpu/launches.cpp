// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's functions for kernels: launches, and the functions that compiler-generated stubs call to register
// kernels.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "paper_gpu/executions.h"
#include "paper_gpu/fat_binary.h"
#include "paper_gpu/model/launch_time.h"
#include "paper_gpu/paper_gpu.h"
#include "paper_gpu/ptx/kernel.h"
#include "paper_gpu/status.h"
#include "paper_gpu/streams.h"

namespace gradmill::paper {
namespace {

struct RegisteredKernel {
  std::string name;
  ptx::Module* module = nullptr;
  size_t granted = 0;  // bytes of shared memory that a launch may request

  // Throws std::runtime_error if there is no code, or if it contains unknown instructions.
  const ptx::Kernel& code() const {
    if (const ptx::Kernel* const replaced = replaced_kernel(name)) return *replaced;
    if (module == nullptr) throw std::runtime_error("this binary has no PTX that the GPU takes");
    return module->kernel(name);
  }
};

struct Kernels {
  std::map<const void*, RegisteredKernel> by_stub;
  std::mutex mutex;
};
Kernels& kernels() {
  static Kernels all;
  return all;
}

// Whether kernels run, either all of their blocks or a sample.
bool executes() { return computes() || model::models_time(); }

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

// For tools/check_launches.py: writes each kernel with each block size, and the most shared memory requested with it,
// to the file in PAPER_LAUNCHES.
void write_down(const RegisteredKernel& kernel, const cudaLaunchConfig_t& config) {
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

// Without a grant a block has 48 KiB for what the launch requests and the kernel declares together.
std::string why_too_much_shared(size_t asked, size_t granted, size_t declared) {
  constexpr size_t kUngranted = 48 * 1024;
  if (asked > granted && asked + declared > kUngranted) {
    return fmt::format("{} bytes of shared memory beside the {} it declares, {} granted", asked, declared, granted);
  }
  return {};
}

std::string why_not(const cudaLaunchConfig_t& config, const RegisteredKernel& kernel, size_t declared_shared) {
  const dim3 &grid = config.gridDim, &block = config.blockDim;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535) {
    return "a grid of " + describe(grid);
  }
  const size_t threads = size_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64) return "a block of " + describe(block);
  if (std::string reason = why_too_much_shared(config.dynamicSmemBytes, kernel.granted, declared_shared);
      !reason.empty()) {
    return reason;
  }
  const unsigned cluster = cluster_size(config);
  if (cluster > 1 && gpu().compute_capability < 90) return fmt::format("a cluster of {}", cluster);
  if (cluster > 8 || grid.x % cluster != 0)
    return fmt::format("a cluster of {}, a grid of {}", cluster, describe(grid));
  return {};
}

// The parameters in the kernel's layout, one after the other.
std::vector<std::byte> packed(const ptx::Kernel& code, void** arguments) {
  std::vector<std::byte> params(code.param_bytes);
  for (size_t n = 0; n < code.parameters.size(); ++n) {
    const ptx::Parameter& parameter = code.parameters[n];
    std::memcpy(params.data() + parameter.offset, arguments[n], parameter.bytes);
  }
  return params;
}

cudaError_t launch(const cudaLaunchConfig_t& config, const ptx::Kernel& code, void** arguments) {
  const dim3 &grid = config.gridDim, &block = config.blockDim;
  const ptx::Launch launch{{grid.x, grid.y, grid.z},
                           {block.x, block.y, block.z},
                           static_cast<uint32_t>(config.dynamicSmemBytes),
                           cluster_size(config)};
  return enqueue(config.stream, [&code, launch, params = packed(code, arguments)] { execute(code, launch, params); });
}

}  // namespace
}  // namespace gradmill::paper

using namespace gradmill::paper;

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  auto** const handle = new void*;
  try {
    *handle = executes() ? load_ptx(wrapper, gpu().compute_capability) : nullptr;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "paper GPU: %s\n", error.what());
    std::_Exit(2);
  }
  return handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void** handle, const char* stub, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  const std::lock_guard lock(kernels().mutex);
  RegisteredKernel& kernel = kernels().by_stub[stub];
  kernel.name = name;
  kernel.module = static_cast<ptx::Module*>(*handle);
  if (kernel.module != nullptr && kernel.module->has(name)) known_kernel(name);
}

// Launches with <<< >>> bypass the one place that checks them. There must be none, and the compiler's stubs are never
// run.
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
                              ptx::readable_name(kernel->second.name), value, gpu().shared_kib));
  }
  kernel->second.granted = static_cast<size_t>(value);
  return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* stub, void** arguments) {
  ++counts().launches;
  expect_chosen("a kernel is launched");
  counts().most_shared = std::max(counts().most_shared, config->dynamicSmemBytes);
  const std::lock_guard lock(kernels().mutex);
  const auto found = kernels().by_stub.find(stub);
  if (found == kernels().by_stub.end()) return refuse("no such kernel", cudaErrorInvalidDeviceFunction);
  const RegisteredKernel& kernel = found->second;
  keep_order(config->stream);
  write_down(kernel, *config);
  const ptx::Kernel* code = nullptr;
  try {
    if (executes()) code = &kernel.code();
  } catch (const std::exception& error) {
    return refuse(fmt::format("{}: {}", ptx::readable_name(kernel.name), error.what()), cudaErrorInvalidDeviceFunction);
  }
  // The code says what the kernel declares statically. Without code, all requested memory must be granted.
  const size_t declared = code != nullptr ? code->static_shared : size_t{48} * 1024;
  if (const std::string reason = why_not(*config, kernel, declared); !reason.empty()) {
    return refuse(fmt::format("{} is launched with {}", ptx::readable_name(kernel.name), reason),
                  cudaErrorInvalidConfiguration);
  }
  return code != nullptr ? launch(*config, *code, arguments) : enqueue(config->stream, {});
}

}  // extern "C"
