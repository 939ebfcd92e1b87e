// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "paper_gpu/cublaslt_memory.h"

namespace gradmill::paper {

// Seconds that a product takes by the cost model.
double duration_of(const Problem& problem, const Operands& operands);

}  // namespace gradmill::paper
