// SPDX-License-Identifier: Apache-2.0
#include "metrics/scores/roc.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>
#include <vector>

#include "metrics/scores/regression_metrics.h"

namespace gradmill {

// The Mann-Whitney statistic, computed from the ranks of the positives.
double roc_auc(std::span<const float> scores, std::span<const uint8_t> positive) {
  assert(scores.size() == positive.size());
  const std::vector<double> ranks = average_ranks(scores);
  double rank_sum = 0, positives = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (positive[i] == 0) continue;
    rank_sum += ranks[i];
    ++positives;
  }
  const double negatives = double(scores.size()) - positives;
  if (positives == 0 || negatives == 0) return std::numeric_limits<double>::quiet_NaN();
  return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives);
}

double macro_roc_auc(std::span<const float> scores, std::span<const int32_t> truth, int64_t num_classes) {
  assert(scores.size() == truth.size() * static_cast<size_t>(num_classes));
  std::vector<float> of_class(truth.size());
  std::vector<uint8_t> positive(truth.size());
  double sum = 0;
  for (int64_t k = 0; k < num_classes; ++k) {
    for (size_t i = 0; i < truth.size(); ++i) {
      of_class[i] = scores[i * static_cast<size_t>(num_classes) + static_cast<size_t>(k)];
      positive[i] = truth[i] == k;
    }
    sum += roc_auc(of_class, positive);
  }
  return sum / double(num_classes);
}

}  // namespace gradmill
