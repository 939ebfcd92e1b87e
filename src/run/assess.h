// SPDX-License-Identifier: Apache-2.0
// How good a session's weights are at a task, whatever the task is.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "metrics/scores/thresholds.h"
#include "run/evaluation.h"
#include "run/task.h"

namespace gradmill {

struct Assessment {
  double loss = std::numeric_limits<double>::quiet_NaN();
  double perplexity = std::numeric_limits<double>::quiet_NaN();  // where tokens are predicted
  double metric = std::numeric_limits<double>::quiet_NaN();      // what the best checkpoint is chosen by
  std::vector<std::pair<std::string, double>> values;            // the task's metrics, by name
  std::optional<Threshold> threshold;                            // where one was asked for
  bool stopped = false;                                          // before the end: nothing else is known
};

struct AssessOptions {
  std::string metric = "loss";     // as metric_name() has it
  int64_t max_tokens = 0;          // as RunData::visit_validation
  std::string threshold = "none";  // as eval.threshold
  std::function<bool()> stop_requested = [] { return false; };
};

Assessment assess(Session& session, const Task& task, RunData& data, const AssessOptions& options);

// Evaluates batches for what that loads, plans and captures: the results are not looked at.
void evaluate_unseen(Session& session, const Task& task, const VisitBatches& batches,
                     const std::function<bool()>& stop_requested);

}  // namespace gradmill
