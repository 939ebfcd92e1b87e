// SPDX-License-Identifier: Apache-2.0
// How a parameter's values lie in memory.
#pragma once

#include <cstdint>

namespace gradmill {

// Trainable parameters are always `compute`: fp32 masters and copies to compute with.
enum class WeightFormat : uint8_t {
  compute,  // the dtype that is computed with
  fp32,     // for numbers beside the weights that must not lose digits
  int8,     // frozen matrices: a byte an element, one scale a row
  nf4,      // frozen matrices: half a byte an element, one scale for 64 of them
};

}  // namespace gradmill
