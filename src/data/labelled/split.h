// SPDX-License-Identifier: Apache-2.0
// Cuts of a set into training, validation and test examples, and into folds. Each depends on its arguments alone.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace gradmill {

struct SplitFractions {
  double train = 0.8;
  double validation = 0.1;
  double test = 0.1;
};

// Indices of examples in rising order; each is on exactly one side.
struct Split {
  std::vector<int32_t> train, validation, test;
};

// Classes are any numbers. Fractions are not negative and add up to 1. Every class has, on every side, its share
// rounded up or down; so has every side as a whole. Throws a usage_error for other fractions, a data_error where a side
// with a share would be empty.
Split stratified_split(std::span<const int32_t> classes, const SplitFractions& fractions, uint64_t seed);
// All examples of a group are on the same side. The shares of classes are as near as whole groups allow; a search finds
// that, not a proof.
Split grouped_split(std::span<const int32_t> classes, std::span<const int32_t> groups, const SplitFractions& fractions,
                    uint64_t seed);

// The fold of every example, in [0, num_folds). As above with equal shares. Throws a usage_error for less than 2 or
// more than 1000 folds, a data_error for more of them than examples or groups.
std::vector<int32_t> stratified_folds(std::span<const int32_t> classes, int64_t num_folds, uint64_t seed);
std::vector<int32_t> stratified_group_folds(std::span<const int32_t> classes, std::span<const int32_t> groups,
                                            int64_t num_folds, uint64_t seed);

// What one round of a cross-validation trains on, and what it leaves out for validation. `test` is empty.
Split fold_split(std::span<const int32_t> folds, int64_t fold);

// Classes for a regression: its targets by size, in `count` parts of the same number. Those that are not a number are a
// class of their own.
std::vector<int32_t> target_bins(std::span<const float> targets, int64_t count);

}  // namespace gradmill
