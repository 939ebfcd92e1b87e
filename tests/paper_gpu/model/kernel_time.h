// SPDX-License-Identifier: Apache-2.0
// How long a launch takes, from what its blocks were counted to do.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

#include "paper_gpu/ptx/counts.h"

namespace gradmill::paper::model {

struct LaunchShape {
  uint64_t blocks = 1;
  uint32_t threads = 1;       // of a block
  uint32_t shared_bytes = 0;  // of a block
  std::optional<uint32_t> registers;
  bool uses_warpgroups = false;  // for products
};

// What bounds a launch, in seconds, each as if nothing else did.
struct KernelTime {
  double issue = 0, integer = 0, floats = 0, special = 0, shared = 0, l2 = 0, memory = 0, matrix = 0;
  double chain = 0;  // instructions and accesses that wait for each other
  double seconds() const;
};

// `counts` are those of counts.blocks of the launch's blocks, which stand for all.
KernelTime kernel_time(const LaunchShape& shape, const ptx::Counts& counts);

// The time of parts that run at the same time, as far as kernels and libraries overlap them.
double overlapped(std::initializer_list<double> parts);

}  // namespace gradmill::paper::model
