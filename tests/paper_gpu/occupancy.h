// SPDX-License-Identifier: Apache-2.0
// The number of blocks of a launch that a multiprocessor can hold at the same time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gradmill::paper {

// The resources of a multiprocessor.
struct Multiprocessor {
  int compute_capability;
  uint32_t threads, blocks, shared_kib, registers;
  uint32_t shared_kib_of_system;  // that each block uses in addition to its own
};
const Multiprocessor& multiprocessor(int compute_capability);

// The resources that a block needs.
struct BlockNeeds {
  uint32_t threads = 1, shared_bytes = 0;
  std::optional<uint32_t> registers;  // per thread; if unknown they do not limit
};
// 0 if not even one fits.
uint32_t blocks_that_fit(const Multiprocessor& on, const BlockNeeds& needs);

// The registers that ptxas gives a kernel on GPUs of this compute capability, looked up by instance_name() in the file
// registers.txt, which tools/kernel_registers.py writes. Empty if the file does not have it.
std::optional<uint32_t> recorded_registers(const std::string& instance, int compute_capability);

}  // namespace gradmill::paper
