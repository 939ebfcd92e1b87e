// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "paper_gpu/cublaslt_memory.h"

namespace gradmill::paper {

// The seconds that a GEMM takes according to the cost model.
double duration_of(const Problem& problem, const Operands& operands);

}  // namespace gradmill::paper
