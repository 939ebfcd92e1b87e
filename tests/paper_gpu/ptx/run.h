// SPDX-License-Identifier: Apache-2.0
// Executes kernels, as PTX, on the CPU: with every check on, and in the order that the options ask for.
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
  uint32_t dynamic_shared = 0;  // bytes
  uint32_t cluster = 1;         // blocks, neighbours in x
};

// When asynchronous work (copies, products of warpgroups) is done, and in which order warps and blocks run.
enum class Arrival : uint8_t { late, early, shuffled };
enum class Order : uint8_t { ascending, descending, shuffled };

// Some of a launch's clusters of blocks, spread over the grid, instead of all. Clusters are run whole.
struct Sample {
  uint64_t least_clusters = 0;            // 0: all run
  uint64_t enough_lane_instructions = 0;  // then no more clusters than these run; products count by their FLOPs
};

struct RunOptions {
  Arrival arrival = Arrival::late;
  Order order = Order::ascending;
  uint32_t seed = 1;    // of what is shuffled
  bool counts = false;  // what memory and the matrix units do; instructions are always counted
  bool checks = true;   // races, initialisation, fences; extents and alignment are always checked
  Sample sample = {};
};

struct Counts;

// Runs the kernel to its end. `params` are its parameters as the launch passes them, at the kernel's own offsets.
// Returns what it did wrong, with source line, block, thread and address, and stops there; empty if nothing was wrong.
std::string run(const Kernel& kernel, const Launch& launch, std::span<const std::byte> params,
                const RunOptions& options = {}, Counts* counts = nullptr);

}  // namespace gradmill::paper::ptx
