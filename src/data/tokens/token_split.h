// SPDX-License-Identifier: Apache-2.0
// The cut of a corpus into a part to learn from and a part to be measured on.
#pragma once

#include <cstdint>
#include <vector>

namespace gradmill {

struct TokenSplit {
  std::vector<int32_t> train, validation;
};

// Validation is the tail: train gets the first floor(n * (1 - validation_fraction)) tokens. Throws a usage_error unless
// 0 < validation_fraction < 1 and context >= 1, and a data_error unless both parts hold at least one sequence and its
// last target, context + 1 tokens.
TokenSplit split_tokens(std::vector<int32_t> tokens, double validation_fraction, int64_t context);

}  // namespace gradmill
