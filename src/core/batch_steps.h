// SPDX-License-Identifier: Apache-2.0
// Batched GEMM in one call: the views describe the first matrices, and each further problem starts one step later.
#pragma once

#include <cstdint>

namespace gradmill {

struct BatchSteps {
  int64_t count = 1;
  int64_t a = 0, b = 0, c = 0;  // in elements

  bool operator==(const BatchSteps&) const = default;
};

}  // namespace gradmill
