// SPDX-License-Identifier: Apache-2.0
// The answers of a classifier or regressor, and their scores.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "metrics/scores/class_metrics.h"
#include "metrics/scores/regression_metrics.h"
#include "metrics/scores/thresholds.h"
#include "run/evaluation.h"
#include "run/task.h"

namespace gradmill {

// The answers for some examples, in the order of their batches.
struct TaskAnswers {
  int64_t num_outputs = 0;
  std::vector<float> logits;      // (examples, outputs)
  std::vector<int32_t> classes;   // true classes; kIgnoredTarget: not known
  std::vector<float> targets;     // true numbers
  std::vector<int32_t> examples;  // indices in the set
  bool stopped = false;

  size_t size() const { return examples.size(); }
  std::span<const float> logits_of(size_t index) const {
    return std::span(logits).subspan(index * static_cast<size_t>(num_outputs), static_cast<size_t>(num_outputs));
  }
  // Softmax of the logits.
  std::vector<float> probabilities() const;
};
TaskAnswers answer(
    Session& session, const Task& task, const VisitBatches& batches,
    const std::function<bool()>& stop_requested = [] { return false; });

// The likeliest class. With a threshold, which needs two classes: the second from that probability upwards.
std::vector<int32_t> decide(std::span<const float> probabilities, int64_t num_classes,
                            std::optional<double> threshold = std::nullopt);

// The scores of answers, which must all have a true label.
struct TaskScores {
  double loss = 0;  // mean of the cross-entropy, weighted by class, or of the squared error
  std::vector<std::pair<std::string, double>> values;  // in the order of Task::score_names
  std::optional<ClassReport> report;
  std::optional<ConfusionMatrix> confusion;

  // Throws a usage_error for an unknown name.
  double value(const std::string& name) const;
};
TaskScores score(const TaskAnswers& answers, const Task& task, std::span<const float> class_weights = {},
                 std::optional<double> threshold = std::nullopt);

// For two classes: a threshold on the probability of the second.
Threshold tune_threshold(const TaskAnswers& answers, ThresholdGoal goal);

}  // namespace gradmill
