// SPDX-License-Identifier: Apache-2.0
// Whole groups of examples onto sides, so that each side gets its share of every class as nearly as can be.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gradmill {

// The side of every example; side s is to have fractions[s] of all. Classes and groups are numbered from 0 on without
// gaps. Groups are dealt greedily, those that are hardest to place first, then moved one at a time as long as that
// helps, in at most a few rounds. With as many groups as sides, every side with a share gets one.
std::vector<int32_t> assign_groups(std::span<const int32_t> classes, std::span<const int32_t> groups,
                                   std::span<const double> fractions, uint64_t seed);

}  // namespace gradmill
