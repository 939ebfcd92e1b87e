// SPDX-License-Identifier: Apache-2.0
// Whole numbers in place of the shares that several parts have of several classes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gradmill {

// counts[row][column] is sizes[row] * fractions[column] rounded up or down, so that rows add up to their sizes and
// every column to the sum of its shares, rounded up or down. Such numbers always exist, because a flow whose bounds are
// whole and that exists in fractions exists in whole numbers. Fractions are not negative and add up to 1; there are
// few.
std::vector<std::vector<int64_t>> round_shares(std::span<const int64_t> sizes, std::span<const double> fractions);

}  // namespace gradmill
