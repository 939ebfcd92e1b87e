// SPDX-License-Identifier: Apache-2.0
// The loss of a language model in other units.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace gradmill {

// `loss` is a mean in nats.
inline double perplexity(double loss) { return std::exp(loss); }
// The loss of a whole text divided by its length, which is comparable between tokenizers. NaN for an empty text.
inline double bits_per_byte(double loss_sum, int64_t num_bytes) {
  if (num_bytes == 0) return std::numeric_limits<double>::quiet_NaN();
  return loss_sum / std::log(2.0) / double(num_bytes);
}

}  // namespace gradmill
