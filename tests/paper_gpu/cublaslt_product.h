// SPDX-License-Identifier: Apache-2.0
// Does the work of a product of the paper cuBLASLt, when its turn on the stream has come.
#pragma once

#include "paper_gpu/cublaslt_memory.h"

namespace gradmill::paper {

void compute(const Problem& problem, const Operands& operands);

}  // namespace gradmill::paper
