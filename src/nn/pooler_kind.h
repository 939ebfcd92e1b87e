// SPDX-License-Identifier: Apache-2.0
// What stands between a sequence's pooled row and the classifier: nothing, BERT's dense and tanh, DeBERTa's dense and
// gelu, ModernBERT's dense, gelu and norm.
#pragma once

#include <cstdint>

namespace gradmill {

enum class PoolerKind : uint8_t { none, tanh, gelu, gelu_norm };

}  // namespace gradmill
