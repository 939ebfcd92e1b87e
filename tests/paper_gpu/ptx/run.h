// SPDX-License-Identifier: Apache-2.0
// Executes kernels as PTX on the CPU, with all checks, and in the order that the options request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "paper_gpu/ptx/module.h"

namespace gradmill::paper::ptx {

struct Dim {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t{x} * y * z; }
};

struct Launch {
  Dim grid, block;
  uint32_t dynamic_shared = 0;  // in bytes
  uint32_t cluster = 1;         // number of blocks, which are neighbours in x
};

// When asynchronous work (copies, products of warpgroups) is performed, and in which order warps and blocks run.
enum class Arrival : uint8_t { late, early, shuffled };
enum class Order : uint8_t { ascending, descending, shuffled };

// Runs only some of a launch's clusters, spread over the grid. Each of these clusters runs completely.
struct Sample {
  uint64_t least_clusters = 0;            // 0: all run
  uint64_t enough_lane_instructions = 0;  // no more clusters are started after this; products count by their FLOPs
};

struct RunOptions {
  Arrival arrival = Arrival::late;
  Order order = Order::ascending;
  uint32_t seed = 1;    // of the shuffled order
  bool counts = false;  // counts memory and matrix units; instructions are always counted
  bool checks = true;   // races, initialisation, fences; extents and alignment are always checked
  Sample sample = {};
};

struct Counts;

// Runs the kernel to its end. `params` are the launch's parameters at the kernel's own offsets. Stops at the first
// error and returns it with source line, block, thread and address; empty if there was none.
std::string run(const Kernel& kernel, const Launch& launch, std::span<const std::byte> params,
                const RunOptions& options = {}, Counts* counts = nullptr);

}  // namespace gradmill::paper::ptx
