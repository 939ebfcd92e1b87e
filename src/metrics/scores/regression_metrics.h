// SPDX-License-Identifier: Apache-2.0
// How near predicted numbers are to true ones.
#pragma once

#include <span>
#include <vector>

namespace gradmill {

struct RegressionScores {
  double mse = 0, mae = 0;
  double pearson = 0, spearman = 0;  // not a number where either side is constant
};
// Of at least one example.
RegressionScores regression_scores(std::span<const float> predicted, std::span<const float> truth);

// From 1 on; equal values share the mean of their ranks.
std::vector<double> average_ranks(std::span<const float> values);

}  // namespace gradmill
