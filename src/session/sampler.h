// SPDX-License-Identifier: Apache-2.0
// Samples the next token from logits.
#pragma once

#include <cstdint>
#include <span>

namespace gradmill {

struct SamplerOptions {
  double temperature = 1;  // 0: the most likely token
  int64_t top_k = 0;       // keep this many of the likeliest tokens; 0: all
  double top_p = 1;        // of those, keep the fewest likeliest that together have this probability; 1: all
  uint64_t seed = 0;
};

// The token at `position` of a sample. The result depends only on the arguments. Throws an error if a logit is NaN or
// positive infinity.
int32_t sample_token(std::span<const float> logits, const SamplerOptions& options, int64_t position);

}  // namespace gradmill
