// SPDX-License-Identifier: Apache-2.0
// Where a block's norms stand: before each branch (GPT-2, Llama), after the residual sum (BERT), or before a branch and
// again on its output (Gemma 3).
#pragma once

#include <cstdint>

namespace gradmill {

enum class NormPlacement : uint8_t { before, after, around };

}  // namespace gradmill
