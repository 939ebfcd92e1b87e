// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gradmill {

// The target of a row, or a sequence, that has none: no loss, no gradient.
inline constexpr int32_t kIgnoredTarget = -100;

}  // namespace gradmill
