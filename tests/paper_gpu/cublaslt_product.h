// SPDX-License-Identifier: Apache-2.0
// Computes a GEMM of the paper cuBLASLt when the stream reaches it.
#pragma once

#include "paper_gpu/cublaslt_memory.h"

namespace gradmill::paper {

void compute(const Problem& problem, const Operands& operands);

}  // namespace gradmill::paper
