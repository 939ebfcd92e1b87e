// SPDX-License-Identifier: Apache-2.0
// Kernels with one fault, and the same ones without it.
#pragma once

#include <string>
#include <vector>

#include "paper_gpu/ptx/tests/kernel.h"

namespace gradmill::paper::ptx::test {

// $fault in the body is `bad` for the one and `good` for the other. %rd1 is an input of 256 words, %rd2 an output of
// 256 words that nobody has written, %rd3 16 words of 0. %rd10 to %rd12 are the thread's words in them, and %r9 its
// number in all blocks.
struct Fault {
  std::string what;
  std::string body, bad, good;
  std::vector<std::string> words;  // as expect_finding takes them
  Launch launch = blocks_of(64);
  std::string globals = {};
};

void expect_fault(const Fault& fault);
inline void expect_faults(const std::vector<Fault>& faults) {
  for (const Fault& each : faults) expect_fault(each);
}

}  // namespace gradmill::paper::ptx::test
