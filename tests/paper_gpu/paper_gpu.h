// SPDX-License-Identifier: Apache-2.0
// The paper GPU: a replacement for the CUDA runtime and cuBLASLt in tests on machines without a GPU. Memory and copies
// are real, and kernels are executed as PTX unless PAPER_GPU_COMPUTES=off. Anything that a GPU of that kind would
// refuse is a fault, and so is anything on which it would only crash: missing memory, too much shared memory, or a step
// that waits while it is captured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gradmill::paper {

struct Kind {
  std::string_view name;   // value of PAPER_GPU
  std::string_view title;  // the driver's name
  int compute_capability, num_units;
  size_t memory_mib;
  size_t shared_kib;  // limit per block
  int clock_mhz, memory_clock_mhz, bus_bits;
};

// The GPU that PAPER_GPU names. Ends the program if it names none.
const Kind& gpu();
// Its index. PAPER_GPU_AT=1 puts an old GPU, for which no binary has code, before it.
int gpu_index();
// Whether kernels and GEMMs compute results. PAPER_GPU_COMPUTES=off turns this off, for runs with large shapes.
bool computes();
// A fault unless the calling thread has selected the GPU.
void expect_chosen(std::string_view what);

// Records a fault and prints it on stderr.
void fault(const std::string& what);
const std::vector<std::string>& faults();
// Returns all faults and clears them, for tests that provoke some.
std::vector<std::string> take_faults();

// Records why the bits of what ran may differ from hardware's, unless a reason is already recorded.
void note_inexact(const std::string& why);
// Returns the reason and clears it; empty if all results were exact.
std::string take_inexact();

// The requests so far.
struct Counts {
  size_t allocations = 0;  // including frees, of device and page-locked memory
  size_t launches = 0;     // of kernels, including captured ones
  size_t products = 0;     // by cuBLASLt
  size_t graphs = 0;       // instantiated graphs
  size_t graph_launches = 0;
  size_t most_shared = 0;  // bytes that a launch requested for one block
};
Counts& counts();

// Failures that a GPU may report at any time without a fault of the caller. Tests can switch them on.
struct Refusals {
  size_t allocations_left = SIZE_MAX;  // after this many, memory is exhausted
  bool graphs = false;
  bool waits = false;  // a kernel has failed: every wait returns an error
};
Refusals& refusals();

// A fault unless all `bytes` from `data` on are in one allocation; page-locked memory may be allowed too.
enum class Where { device, device_or_host };
void expect_inside(const void* data, size_t bytes, Where where, const std::string& what);

}  // namespace gradmill::paper
