// SPDX-License-Identifier: Apache-2.0
// How close predicted numbers are to the true ones.
#pragma once

#include <span>
#include <vector>

namespace gradmill {

struct RegressionScores {
  double mse = 0, mae = 0;
  double pearson = 0, spearman = 0;  // NaN if either side is constant
};
// Requires at least one example.
RegressionScores regression_scores(std::span<const float> predicted, std::span<const float> truth);

// Ranks count from 1. Equal values all get the mean of their ranks.
std::vector<double> average_ranks(std::span<const float> values);

}  // namespace gradmill
