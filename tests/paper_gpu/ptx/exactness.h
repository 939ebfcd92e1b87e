// SPDX-License-Identifier: Apache-2.0
// Which instructions give the bits that hardware gives. The rest are approximations, products of matrix units and sums
// whose order is open: hardware's bits may differ a little, and need not be the same in two runs.
#pragma once

#include <string>

#include "paper_gpu/ptx/kernel.h"
#include "paper_gpu/ptx/syntax.h"

namespace gradmill::paper::ptx {

bool is_exact(const Statement& statement);
// The first instruction of the kernel that is not exact, as a place in the source; empty if all are.
std::string why_inexact(const Kernel& kernel);

}  // namespace gradmill::paper::ptx
