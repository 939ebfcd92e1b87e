// SPDX-License-Identifier: Apache-2.0
// From which probability on a binary classifier should say yes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace gradmill {

enum class ThresholdGoal : uint8_t { f1, accuracy, mcc };
// "f1", "accuracy", "mcc". Throws a usage_error for another name.
ThresholdGoal threshold_goal(std::string_view name);

struct Threshold {
  double value = 0.5;  // scores from it on are positive
  double score = 0;    // what is reached with it
};
// The best of all cuts between two different scores, with all or none positive among them; of equally good ones the
// nearest to 0.5. Scores are probabilities.
Threshold best_threshold(std::span<const float> scores, std::span<const uint8_t> positive, ThresholdGoal goal);

}  // namespace gradmill
