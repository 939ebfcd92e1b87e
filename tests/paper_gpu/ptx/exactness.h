// SPDX-License-Identifier: Apache-2.0
// Which instructions give the same bits as hardware. The others are approximations, products of matrix units, and sums
// of unspecified order: hardware's bits may differ slightly, even between two runs.
#pragma once

#include <string>

#include "paper_gpu/ptx/kernel.h"
#include "paper_gpu/ptx/syntax.h"

namespace gradmill::paper::ptx {

bool is_exact(const Statement& statement);
// The source location of the first instruction of the kernel that is not exact; empty if all are.
std::string why_inexact(const Kernel& kernel);

}  // namespace gradmill::paper::ptx
