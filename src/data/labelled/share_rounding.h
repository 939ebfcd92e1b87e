// SPDX-License-Identifier: Apache-2.0
// Rounds the shares that several parts have of several classes to whole numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gradmill {

// counts[row][column] is sizes[row] * fractions[column] rounded up or down, such that each row adds up to its size and
// each column adds up to the sum of its shares, rounded up or down. Such numbers always exist: a flow with whole bounds
// that exists in fractions also exists in whole numbers. Fractions must not be negative, must add up to 1, and should
// be few.
std::vector<std::vector<int64_t>> round_shares(std::span<const int64_t> sizes, std::span<const double> fractions);

}  // namespace gradmill
