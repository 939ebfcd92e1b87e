// SPDX-License-Identifier: Apache-2.0
// Where a block's norms stand: before each branch (GPT-2, Llama), after the residual sum (BERT), before a branch and
// again on its output (Gemma 3), or on its output alone (OLMo 2).
#pragma once

#include <cstdint>

namespace gradmill {

enum class NormPlacement : uint8_t { before, after, around, output };

}  // namespace gradmill
