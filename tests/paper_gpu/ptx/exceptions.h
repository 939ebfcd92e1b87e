// SPDX-License-Identifier: Apache-2.0
// Kernels that intentionally do what a check reports, and why that is correct.
#pragma once

#include <string_view>

namespace gradmill::paper::ptx {

struct Exception {
  std::string_view kernel;   // a part of its mangled name
  std::string_view finding;  // a part of the finding's text
  std::string_view reason;
};

// Only with dropout: without it, everything that is read must have been written.
inline constexpr std::string_view kUndrawnBits =
    "One word holds the dropout bits of several keys. Bits of keys that a row does not see are never drawn. They are "
    "read with the others and decide about weights that are zero.";

inline constexpr Exception kExceptions[] = {
    {"short_wgmma_kernelI13__nv_bfloat16Lb1E", "nothing has written", kUndrawnBits},
    {"short_wgmma_kernelI6__halfLb1E", "nothing has written", kUndrawnBits},
    {"short_rows_kernel", "nothing has written",
     "The last pack of a row may reach into the padding after it, which is written as it was read."},
};

inline bool is_excepted(std::string_view kernel, std::string_view finding) {
  for (const Exception& exception : kExceptions) {
    const bool here = kernel.find(exception.kernel) != std::string_view::npos;
    if (here && finding.find(exception.finding) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace gradmill::paper::ptx
