// SPDX-License-Identifier: Apache-2.0
// The only way to launch a kernel. Every launch is checked, and errors name the caller's line.
#pragma once

#include <cuda_runtime.h>

#include <source_location>

#include "cuda/check.h"

namespace gradmill::cuda {

struct LaunchConfig {
  dim3 grid, block;
  cudaStream_t stream;
  size_t shared_bytes;
  std::source_location where;
  unsigned cluster = 1;  // number of blocks per cluster; more than one requires compute capability 9.0

  LaunchConfig(dim3 grid_dim, dim3 block_dim, cudaStream_t on, size_t dynamic_shared = 0,
               std::source_location at = std::source_location::current())
      : grid(grid_dim), block(block_dim), stream(on), shared_bytes(dynamic_shared), where(at) {}
};

// A block may use up to 48 KiB of shared memory by default, including what the kernel declares statically. Dynamic
// shared memory is therefore always requested explicitly before the launch.
template <class... Params>
void allow_shared(void (*kernel)(Params...), size_t bytes,
                  std::source_location where = std::source_location::current()) {
  if (bytes == 0) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "granting shared memory", where);
}

template <class... Params, class... Args>
void launch(const LaunchConfig& config, void (*kernel)(Params...), Args&&... args) {
  allow_shared(kernel, config.shared_bytes, config.where);
  cudaLaunchConfig_t native{};
  native.gridDim = config.grid;
  native.blockDim = config.block;
  native.dynamicSmemBytes = config.shared_bytes;
  native.stream = config.stream;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {config.cluster, 1, 1};
  native.attrs = &cluster;
  native.numAttrs = config.cluster > 1 ? 1 : 0;
  check(cudaLaunchKernelEx(&native, kernel, static_cast<Params>(args)...), "kernel launch", config.where);
}

}  // namespace gradmill::cuda
