// SPDX-License-Identifier: Apache-2.0
// The flat space of trainable parameters. Gradients, masters, moments and averages use the same indices.
#pragma once

#include <cstdint>

namespace gradmill {

// Each parameter starts at a multiple of this number of elements.
inline constexpr int64_t kSegmentPadding = 256;

struct Segment {
  int64_t begin = 0;
  int64_t size = 0;  // without the padding
  int64_t rows = 0, cols = 0;
  int32_t group = 0;
};

// Groups that a flat space can have.
inline constexpr int kMaxParamGroups = 8;

// What the parameters of a group have in common.
struct ParamGroup {
  float lr_scale = 1;
  float weight_decay = 0;
};

}  // namespace gradmill
