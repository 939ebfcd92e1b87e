// SPDX-License-Identifier: Apache-2.0
#include "metrics/scores/thresholds.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"

namespace gradmill {
namespace {

// The score for given counts of true positives, false positives, false negatives and true negatives.
double score_of(ThresholdGoal goal, double tp, double fp, double fn, double tn) {
  const auto ratio = [](double part, double whole) { return whole == 0 ? 0 : part / whole; };
  if (goal == ThresholdGoal::f1) return ratio(2 * tp, 2 * tp + fp + fn);
  if (goal == ThresholdGoal::accuracy) return ratio(tp + tn, tp + fp + fn + tn);
  return ratio(tp * tn - fp * fn, std::sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)));
}

}  // namespace

ThresholdGoal threshold_goal(std::string_view name) {
  if (name == "f1") return ThresholdGoal::f1;
  if (name == "accuracy") return ThresholdGoal::accuracy;
  if (name == "mcc") return ThresholdGoal::mcc;
  throw usage_error(fmt::format("a threshold for '{}'", name), "choose f1, accuracy or mcc");
}

Threshold best_threshold(std::span<const float> scores, std::span<const uint8_t> positive, ThresholdGoal goal) {
  assert(scores.size() == positive.size() && !scores.empty());
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  const auto positives = double(std::count_if(positive.begin(), positive.end(), [](uint8_t p) { return p != 0; }));
  const double negatives = double(scores.size()) - positives;
  Threshold best{.value = 1, .score = -2};
  double tp = 0, fp = 0;
  const auto consider = [&](double value) {
    const double score = score_of(goal, tp, fp, positives - tp, negatives - fp);
    const bool nearer = std::abs(value - 0.5) < std::abs(best.value - 0.5);
    if (score > best.score || (score == best.score && nearer)) best = {value, score};
  };
  // This threshold is above every score, so that no example is positive.
  consider(std::nextafter(std::max(1.0, double(scores[order.front()])), 2.0));
  for (size_t i = 0; i < order.size();) {
    const float score = scores[order[i]];
    for (; i < order.size() && scores[order[i]] == score; ++i) ++(positive[order[i]] != 0 ? tp : fp);
    const double next = i < order.size() ? double(scores[order[i]]) : 0;
    consider(i < order.size() ? (double(score) + next) / 2 : std::min(0.0, double(score)));
  }
  return best;
}

}  // namespace gradmill
