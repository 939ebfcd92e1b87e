// SPDX-License-Identifier: Apache-2.0
// A GPU on paper: what stands in for CUDA's runtime and cuBLASLt in tests on machines without a GPU. Memory is real,
// and so are copies; kernels and products do nothing. What a GPU of that kind would refuse is a fault, and so is what
// it would only crash on: memory that is not there, more shared memory than it has, a step that waits while it is
// captured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gradmill::paper {

struct Kind {
  std::string_view name;   // for PAPER_GPU
  std::string_view title;  // as its driver says it
  int compute_capability, num_units;
  size_t memory_mib;
  size_t shared_kib;  // that one block may have
  int clock_mhz, memory_clock_mhz, bus_bits;
};

// The one that PAPER_GPU names; the program ends where it names none.
const Kind& gpu();
// Its index. PAPER_GPU_AT=1 puts an old one in front of it, for which no binary has code.
int gpu_index();
// Whether kernels and products compute; PAPER_GPU_COMPUTES=off does not, for runs with large shapes.
bool computes();
// A fault unless the calling thread has chosen it.
void expect_chosen(std::string_view what);

// Remembers what is wrong and says it on stderr.
void fault(const std::string& what);
const std::vector<std::string>& faults();
// Returns all of them and forgets them: for tests that provoke some.
std::vector<std::string> take_faults();

// Remembers why the bits of what ran need not be hardware's, if nothing was remembered before.
void note_inexact(const std::string& why);
// Returns it and forgets it; empty if all was exact.
std::string take_inexact();

// What was asked for so far.
struct Counts {
  size_t allocations = 0;  // and frees, of device and page-locked memory
  size_t launches = 0;     // of kernels, captured ones included
  size_t products = 0;     // by cuBLASLt
  size_t graphs = 0;       // made ready to run
  size_t graph_launches = 0;
  size_t most_shared = 0;  // bytes of one block, asked for at launch
};
Counts& counts();

// What a GPU may refuse at any time, and no fault of who asks: for tests that switch it on.
struct Refusals {
  size_t allocations_left = SIZE_MAX;  // then memory is out
  bool graphs = false;
  bool waits = false;  // a kernel has failed: whoever waits is told
};
Refusals& refusals();

// A fault unless all `bytes` from `data` on are in one allocation; page-locked memory may count too.
enum class Where { device, device_or_host };
void expect_inside(const void* data, size_t bytes, Where where, const std::string& what);

}  // namespace gradmill::paper
