// SPDX-License-Identifier: Apache-2.0
// What a classifier or regressor answers, and how good that is.
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

// Of some examples, in the order of their batches.
struct TaskAnswers {
  int64_t num_outputs = 0;
  std::vector<float> logits;      // (examples, outputs)
  std::vector<int32_t> classes;   // what is true; kIgnoredTarget: not known
  std::vector<float> targets;     // the same of numbers
  std::vector<int32_t> examples;  // which of the set
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

// The likeliest class, or of two the second from the threshold on.
std::vector<int32_t> decide(std::span<const float> probabilities, int64_t num_classes,
                            std::optional<double> threshold = std::nullopt);

// Every answer must have its truth.
struct TaskScores {
  double loss = 0;  // cross-entropy with the weights of the classes, or the squared error: a mean
  std::vector<std::pair<std::string, double>> values;  // in the order of Task::score_names
  std::optional<ClassReport> report;
  std::optional<ConfusionMatrix> confusion;

  // Throws a usage_error for a name that is not there.
  double value(const std::string& name) const;
};
TaskScores score(const TaskAnswers& answers, const Task& task, std::span<const float> class_weights = {},
                 std::optional<double> threshold = std::nullopt);

// For two classes: on the probability of the second.
Threshold tune_threshold(const TaskAnswers& answers, ThresholdGoal goal);

}  // namespace gradmill
