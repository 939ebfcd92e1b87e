// SPDX-License-Identifier: Apache-2.0
// Kernels with one fault, and the same kernels without it.
#pragma once

#include <string>
#include <vector>

#include "paper_gpu/ptx/tests/kernel.h"

namespace gradmill::paper::ptx::test {

// $fault in the body is replaced by `bad` and by `good`. %rd1 is an input of 256 words, %rd2 an unwritten output of 256
// words, %rd3 16 words of 0. %rd10 to %rd12 are the thread's words in them, and %r9 is its index over all blocks.
struct Fault {
  std::string what;
  std::string body, bad, good;
  std::vector<std::string> words;  // as for expect_finding
  Launch launch = blocks_of(64);
  std::string globals = {};
};

void expect_fault(const Fault& fault);
inline void expect_faults(const std::vector<Fault>& faults) {
  for (const Fault& each : faults) expect_fault(each);
}

}  // namespace gradmill::paper::ptx::test
