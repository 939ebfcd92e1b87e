// SPDX-License-Identifier: Apache-2.0
#include "metrics/scores/regression_metrics.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

namespace gradmill {
namespace {

// Two passes, because sums of deviations from the mean do not cancel as sums of squares would.
template <class T>
double pearson(std::span<const T> a, std::span<const T> b) {
  const auto mean = [](std::span<const T> x) { return std::accumulate(x.begin(), x.end(), 0.0) / double(x.size()); };
  const double mean_a = mean(a), mean_b = mean(b);
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double da = double(a[i]) - mean_a, db = double(b[i]) - mean_b;
    ab += da * db;
    aa += da * da;
    bb += db * db;
  }
  return aa == 0 || bb == 0 ? std::numeric_limits<double>::quiet_NaN() : ab / std::sqrt(aa * bb);
}

}  // namespace

std::vector<double> average_ranks(std::span<const float> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = (double(begin) + 1 + double(end)) / 2;
    begin = end;
  }
  return ranks;
}

RegressionScores regression_scores(std::span<const float> predicted, std::span<const float> truth) {
  assert(predicted.size() == truth.size() && !truth.empty());
  RegressionScores scores;
  for (size_t i = 0; i < truth.size(); ++i) {
    const double error = double(predicted[i]) - double(truth[i]);
    scores.mse += error * error;
    scores.mae += std::abs(error);
  }
  scores.mse /= double(truth.size());
  scores.mae /= double(truth.size());
  scores.pearson = pearson(predicted, truth);
  const std::vector<double> a = average_ranks(predicted), b = average_ranks(truth);
  scores.spearman = pearson(std::span<const double>(a), std::span<const double>(b));
  return scores;
}

}  // namespace gradmill
