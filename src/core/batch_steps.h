// SPDX-License-Identifier: Apache-2.0
// Several products of like matrices in one call: the views show the first, the others lie a step further each.
#pragma once

#include <cstdint>

namespace gradmill {

struct BatchSteps {
  int64_t count = 1;
  int64_t a = 0, b = 0, c = 0;  // elements

  bool operator==(const BatchSteps&) const = default;
};

}  // namespace gradmill
