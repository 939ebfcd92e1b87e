// SPDX-License-Identifier: Apache-2.0
// Task: what a model learns from its data, and what follows from that: the head, the kind of targets, how answers are
// scored, and the task's names in files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/labelled/label_map.h"

namespace gradmill {

enum class HeadKind : uint8_t;

// The kinds of targets in a batch.
enum class TargetLayout : uint8_t { next_tokens, hidden_tokens, classes, numbers };

struct Task {
  TaskKind kind = TaskKind::text;
  LabelMap labels = {};  // for classes

  // The value of data.task.
  std::string name() const { return name_of(kind); }
  HeadKind head() const;
  TargetLayout targets() const;
  bool predicts_tokens() const { return targets() == TargetLayout::next_tokens || predicts_hidden_tokens(); }
  bool predicts_hidden_tokens() const { return targets() == TargetLayout::hidden_tokens; }
  bool predicts_classes() const { return targets() == TargetLayout::classes; }
  bool predicts_numbers() const { return targets() == TargetLayout::numbers; }

  // For a classifier or regressor: logits per sequence.
  int64_t num_outputs() const { return predicts_classes() ? labels.size() : 1; }
  // The labels in config.json: one for a number.
  std::vector<std::string> output_names() const;
  // Encoders are published without the heads of these tasks.
  bool may_have_new_head() const;

  // Metrics besides the loss, in the order in which they are reported.
  const std::vector<std::string>& score_names() const;
  // The metric that selects the best checkpoint if eval.metric is `auto`.
  std::string default_metric() const;

  // The task's names in PEFT's adapter_config.json and transformers' config.json; empty if it has none.
  std::string peft_type() const;
  std::string problem_type() const;
};

// The task of a run as far as the settings determine it. For plans and measurements without data, which would give the
// labels, it has two classes.
Task task_without_data(const RunConfig& config);
// The task named in a checkpoint's state or a model's files. An empty `name` is running text.
Task task_by_name(const std::string& name, std::vector<std::string> labels);
// The task of a classifier's head with these labels: one label is a number.
Task task_of_labels(std::vector<std::string> labels);

// eval.metric, with `auto` replaced by the task's default.
std::string metric_name(const RunConfig& config);
inline bool larger_is_better(const std::string& metric) { return metric != "loss" && metric != "mse"; }

}  // namespace gradmill
