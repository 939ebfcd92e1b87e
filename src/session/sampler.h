// SPDX-License-Identifier: Apache-2.0
// Draws the next token from logits.
#pragma once

#include <cstdint>
#include <span>

namespace gradmill {

struct SamplerOptions {
  double temperature = 1;  // 0: the most likely token
  int64_t top_k = 0;       // the likeliest so many; 0: all
  double top_p = 1;        // of those, the fewest likeliest that hold this probability together; 1: all
  uint64_t seed = 0;
};

// The token at `position` of a sample: a function of its arguments alone. Throws an error for logits that are NaN or
// infinitely likely.
int32_t sample_token(std::span<const float> logits, const SamplerOptions& options, int64_t position);

}  // namespace gradmill
