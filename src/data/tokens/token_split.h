// SPDX-License-Identifier: Apache-2.0
// Splits a corpus into training and validation tokens.
#pragma once

#include <cstdint>
#include <vector>

namespace gradmill {

struct TokenSplit {
  std::vector<int32_t> train, validation;
};

// Validation is the end of the corpus: training gets the first floor(n * (1 - validation_fraction)) tokens. Throws a
// usage_error unless 0 < validation_fraction < 1 and context >= 1, and a data_error unless both parts have at least
// context + 1 tokens: one sequence and its last target.
TokenSplit split_tokens(std::vector<int32_t> tokens, double validation_fraction, int64_t context);

}  // namespace gradmill
