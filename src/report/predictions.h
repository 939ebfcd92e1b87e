// SPDX-License-Identifier: Apache-2.0
// What a model answers about records, as lines of a file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "run/loaded_run.h"

namespace gradmill {

enum class PredictionFormat : uint8_t { jsonl, csv };

// {"label": "yes", "probability": 0.9, "probabilities": {"no": 0.1, "yes": 0.9}} a line, or with numbers
// {"value": 3.5}; as CSV the same in columns, after a header. One line for each answer, in order.
std::string prediction_lines(const TaskAnswers& answers, const Task& task, std::optional<double> threshold,
                             PredictionFormat format);

// Texts without their labels: columns as the run's settings name them, or else chosen by name.
LabelledSet read_unlabelled(const std::string& paths, const RunConfig& config);
// With labels, those of the task.
LabelledSet read_for_evaluation(const std::string& paths, const RunConfig& config, const Task& task);

// The report about answers whose truth is known: loss and metrics, and of classes the table and the confusion matrix.
std::string describe_scores(const TaskScores& scores, const Task& task);
// One line of JSON.
std::string scores_json(const TaskScores& scores, int64_t step, int64_t examples);

}  // namespace gradmill
