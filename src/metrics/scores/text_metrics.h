// SPDX-License-Identifier: Apache-2.0
// A language model's loss in other units.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace gradmill {

// Of a mean loss in nats.
inline double perplexity(double loss) { return std::exp(loss); }
// Comparable between tokenizers: the loss of a whole text by its length. Not a number for an empty one.
inline double bits_per_byte(double loss_sum, int64_t num_bytes) {
  if (num_bytes == 0) return std::numeric_limits<double>::quiet_NaN();
  return loss_sum / std::log(2.0) / double(num_bytes);
}

}  // namespace gradmill
