// SPDX-License-Identifier: Apache-2.0
// Evaluates a session's weights on any task.
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
  double perplexity = std::numeric_limits<double>::quiet_NaN();  // if tokens are predicted
  double metric = std::numeric_limits<double>::quiet_NaN();      // the value that selects the best checkpoint
  std::vector<std::pair<std::string, double>> values;            // the task's metrics, by name
  std::optional<Threshold> threshold;                            // if one was asked for
  bool stopped = false;  // stopped before the end; the other members are not set
};

struct AssessOptions {
  std::string metric = "loss";     // a result of metric_name()
  int64_t max_tokens = 0;          // as RunData::visit_validation
  std::string threshold = "none";  // as eval.threshold
  std::function<bool()> stop_requested = [] { return false; };
};

Assessment assess(Session& session, const Task& task, const RunData& data, const AssessOptions& options);

// Evaluates batches only to load, plan and capture what this needs, and ignores the results.
void evaluate_unseen(Session& session, const Task& task, const VisitBatches& batches,
                     const std::function<bool()>& stop_requested);

}  // namespace gradmill
