// SPDX-License-Identifier: Apache-2.0
// Splits a set into training, validation and test examples, or into folds. Results depend only on the arguments.
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

// Indices of examples in ascending order; each is on exactly one side.
struct Split {
  std::vector<int32_t> train, validation, test;
};

// Classes may be any numbers. Fractions must not be negative and must add up to 1. On every side, each class gets its
// share rounded up or down, and so does the side as a whole. Throws a usage_error for invalid fractions, and a
// data_error if a side with a share would be empty.
Split stratified_split(std::span<const int32_t> classes, const SplitFractions& fractions, uint64_t seed);
// All examples of a group are on the same side. The shares of classes are as close as whole groups allow, as far as a
// heuristic search finds them.
Split grouped_split(std::span<const int32_t> classes, std::span<const int32_t> groups, const SplitFractions& fractions,
                    uint64_t seed);

// The fold of every example, in [0, num_folds), with equal shares as above. Throws a usage_error for less than 2 or
// more than 1000 folds, and a data_error for more folds than examples or groups.
std::vector<int32_t> stratified_folds(std::span<const int32_t> classes, int64_t num_folds, uint64_t seed);
std::vector<int32_t> stratified_group_folds(std::span<const int32_t> classes, std::span<const int32_t> groups,
                                            int64_t num_folds, uint64_t seed);

// The training and validation examples of one round of cross-validation. `test` is empty.
Split fold_split(std::span<const int32_t> folds, int64_t fold);

// Classes for a regression: targets in ascending order, divided into `count` parts of equal size. NaN targets are a
// class of their own.
std::vector<int32_t> target_bins(std::span<const float> targets, int64_t count);

}  // namespace gradmill
