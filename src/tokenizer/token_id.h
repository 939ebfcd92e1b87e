// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gradmill {

using TokenId = int32_t;

}  // namespace gradmill
