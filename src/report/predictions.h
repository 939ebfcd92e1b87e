// SPDX-License-Identifier: Apache-2.0
// A model's answers as lines of a file, and reports about them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "run/loaded_run.h"

namespace gradmill {

enum class PredictionFormat : uint8_t { jsonl, csv };

// One line per answer, in order: {"label": "yes", "probability": 0.9, "probabilities": {"no": 0.1, "yes": 0.9}}, or for
// numbers {"value": 3.5}. CSV has the same in columns, after a header.
std::string prediction_lines(const TaskAnswers& answers, const Task& task, std::optional<double> threshold,
                             PredictionFormat format);

// Reads texts without labels from the columns that the run's settings name, otherwise from columns with usual names.
LabelledSet read_unlabelled(const std::string& paths, const RunConfig& config);
// Reads texts with labels, which must be the task's.
LabelledSet read_for_evaluation(const std::string& paths, const RunConfig& config, const Task& task);

// A report on answers with known labels: loss and metrics, and for classes a table by class and the confusion matrix.
std::string describe_scores(const TaskScores& scores, const Task& task);
// One line of JSON.
std::string scores_json(const TaskScores& scores, int64_t step, int64_t examples);

}  // namespace gradmill
