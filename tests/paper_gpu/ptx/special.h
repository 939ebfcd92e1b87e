// SPDX-License-Identifier: Apache-2.0
// Special registers: values that hardware provides to threads.
#pragma once

#include <cstdint>
#include <string_view>

#include "paper_gpu/ptx/kernel.h"

namespace gradmill::paper::ptx {

struct Block;

// The special register with a name like "%tid.x"; null if there is none.
const Special* special_named(std::string_view name);
// Whether it has 64 bits.
bool is_wide(Special special);
uint64_t special_value(Special special, const Block& block, const Warp& warp, uint32_t lane);

// The only one that is a predicate.
inline constexpr std::string_view kExplicitCluster = "%is_explicit_cluster";

}  // namespace gradmill::paper::ptx
