// SPDX-License-Identifier: Apache-2.0
// Task: what a model learns from its data, and all that follows from it: the head, what targets are, how answers are
// scored, and the names that files have for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/labelled/label_map.h"

namespace gradmill {

enum class HeadKind : uint8_t;

// What the targets of a batch are.
enum class TargetLayout : uint8_t { next_tokens, hidden_tokens, classes, numbers };

struct Task {
  TaskKind kind = TaskKind::text;
  LabelMap labels = {};  // of classes

  // As data.task has it.
  std::string name() const { return name_of(kind); }
  HeadKind head() const;
  TargetLayout targets() const;
  bool predicts_tokens() const { return targets() == TargetLayout::next_tokens || predicts_hidden_tokens(); }
  bool predicts_hidden_tokens() const { return targets() == TargetLayout::hidden_tokens; }
  bool predicts_classes() const { return targets() == TargetLayout::classes; }
  bool predicts_numbers() const { return targets() == TargetLayout::numbers; }

  // Of a classifier or regressor: logits per sequence.
  int64_t num_outputs() const { return predicts_classes() ? labels.size() : 1; }
  // The labels that config.json names: one for a number.
  std::vector<std::string> output_names() const;
  // Encoders are published without the heads of these tasks.
  bool may_have_new_head() const;

  // Metrics beside the loss, in the order in which they are reported.
  const std::vector<std::string>& score_names() const;
  // What the best checkpoint is chosen by, where eval.metric is `auto`.
  std::string default_metric() const;

  // As PEFT's adapter_config.json and transformers' config.json name the task; empty where they have no name.
  std::string peft_type() const;
  std::string problem_type() const;
};

// The task of a run, as far as the settings say it: the labels come with the data. For plans and measurements without
// data there are two classes.
Task task_without_data(const RunConfig& config);
// The task that a checkpoint's state or a model's files name. `name` may be empty: running text.
Task task_by_name(const std::string& name, std::vector<std::string> labels);
// The task of a classifier's head with these labels: one label is a number.
Task task_of_labels(std::vector<std::string> labels);

// eval.metric, with `auto` as what it means for the task.
std::string metric_name(const RunConfig& config);
inline bool larger_is_better(const std::string& metric) { return metric != "loss" && metric != "mse"; }

}  // namespace gradmill
