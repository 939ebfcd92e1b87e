// SPDX-License-Identifier: Apache-2.0
// Chooses the probability from which a binary classifier should say yes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace gradmill {

enum class ThresholdGoal : uint8_t { f1, accuracy, mcc };
// Reads "f1", "accuracy" or "mcc". Throws a usage_error for any other name.
ThresholdGoal threshold_goal(std::string_view name);

struct Threshold {
  double value = 0.5;  // scores of at least this value are positive
  double score = 0;    // the value of the metric with this threshold
};
// The best of all cuts between two different scores, including the cuts that make all or no examples positive. Among
// equally good cuts, the one closest to 0.5. Scores are probabilities.
Threshold best_threshold(std::span<const float> scores, std::span<const uint8_t> positive, ThresholdGoal goal);

}  // namespace gradmill
