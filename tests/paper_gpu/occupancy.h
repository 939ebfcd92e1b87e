// SPDX-License-Identifier: Apache-2.0
// How many blocks of a launch a multiprocessor holds at the same time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gradmill::paper {

// What a multiprocessor has to give to blocks.
struct Multiprocessor {
  int compute_capability;
  uint32_t threads, blocks, shared_kib, registers;
  uint32_t shared_kib_of_system;  // that each block takes beside its own
};
const Multiprocessor& multiprocessor(int compute_capability);

// What a block takes.
struct BlockNeeds {
  uint32_t threads = 1, shared_bytes = 0;
  std::optional<uint32_t> registers;  // of a thread; where they are not known they do not limit
};
// 0 where not one fits.
uint32_t blocks_that_fit(const Multiprocessor& on, const BlockNeeds& needs);

// Registers that ptxas gives a kernel on GPUs of this compute capability, by instance_name(), from the record
// registers.txt, which tools/kernel_registers.py writes. Empty where the record does not have it.
std::optional<uint32_t> recorded_registers(const std::string& instance, int compute_capability);

}  // namespace gradmill::paper
