// SPDX-License-Identifier: Apache-2.0
// How the values of a parameter are stored in memory.
#pragma once

#include <cstdint>

namespace gradmill {

// Trainable parameters are always `compute`: fp32 masters, and copies in the compute dtype.
enum class WeightFormat : uint8_t {
  compute,  // the compute dtype
  fp32,     // for numbers stored beside the weights that must not lose digits
  int8,     // frozen matrices: one byte per element, one scale per row
  nf4,      // frozen matrices: half a byte per element, one scale per 64 elements
};

}  // namespace gradmill
