// SPDX-License-Identifier: Apache-2.0
// The loss of a session's weights on validation data.
#pragma once

#include <cstdint>
#include <functional>

#include "run/run_data.h"
#include "session/session.h"

namespace gradmill {

struct Evaluation {
  double loss_sum = 0;
  int64_t tokens = 0;  // number of targets
  int64_t bytes = 0;   // of the targets' text, if it was counted
  bool stopped = false;

  double loss() const { return loss_sum / double(tokens); }
};

// Calls its argument for every batch, like RunData::visit_validation.
using VisitBatches = std::function<void(const RunData::UseBatch&)>;

// Ends early if stop_requested returns true after a batch. Throws a data_error if there is no target at all.
Evaluation evaluate(
    Session& session, const VisitBatches& batches, const std::function<bool()>& stop_requested = [] { return false; });
// Evaluates a run's validation data; for max_tokens see RunData::visit_validation.
Evaluation evaluate(
    Session& session, const RunData& data, int64_t max_tokens,
    const std::function<bool()>& stop_requested = [] { return false; });

}  // namespace gradmill
