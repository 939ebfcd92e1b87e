// SPDX-License-Identifier: Apache-2.0
// Models the time of a launch from the counted work of its blocks.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

#include "paper_gpu/ptx/counts.h"

namespace gradmill::paper::model {

struct LaunchShape {
  uint64_t blocks = 1;
  uint32_t threads = 1;       // per block
  uint32_t shared_bytes = 0;  // per block
  std::optional<uint32_t> registers;
  bool uses_warpgroups = false;  // for matrix products
};

// The bounds on the time of a launch, in seconds, each as if it were the only one.
struct KernelTime {
  double issue = 0, integer = 0, floats = 0, special = 0, shared = 0, l2 = 0, memory = 0, matrix = 0;
  double chain = 0;  // instructions and accesses that depend on each other
  double seconds() const;
};

// `counts` come from counts.blocks of the launch's blocks, which represent all of them.
KernelTime kernel_time(const LaunchShape& shape, const ptx::Counts& counts);

// The time of parts that run at the same time, given how well kernels and libraries overlap them.
double overlapped(std::initializer_list<double> parts);

}  // namespace gradmill::paper::model
