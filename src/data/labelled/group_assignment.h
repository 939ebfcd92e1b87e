// SPDX-License-Identifier: Apache-2.0
// Assigns whole groups of examples to sides, so that each side gets its share of every class as closely as possible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gradmill {

// Returns the side of every example; side s should get fractions[s] of all examples. Classes and groups are numbered
// from 0 without gaps. Groups are assigned greedily, the hardest first. Then single groups are moved as long as that
// helps, for at most a few rounds. If there are at least as many groups as sides, every side with a share gets one.
std::vector<int32_t> assign_groups(std::span<const int32_t> classes, std::span<const int32_t> groups,
                                   std::span<const double> fractions, uint64_t seed);

}  // namespace gradmill
