// SPDX-License-Identifier: Apache-2.0
#include "run/evaluation.h"

#include "core/error.h"

namespace gradmill {

Evaluation evaluate(Session& session, const VisitBatches& batches, const std::function<bool()>& stop_requested) {
  Communicator& ranks = *session.options().communicator;
  Evaluation result;
  // The ranks take turns with the batches.
  batches([&, index = int64_t{0}](const MicroBatch& batch) mutable {
    if (index++ % ranks.size() == ranks.rank()) {
      result.loss_sum += session.eval_micro(batch);
      result.tokens += batch.num_targets;
    }
    result.stopped = stop_requested();
    return !result.stopped;
  });
  result.loss_sum = ranks.sum(result.loss_sum);
  result.tokens = static_cast<int64_t>(ranks.sum(double(result.tokens)));
  result.stopped = ranks.any(result.stopped);
  if (result.tokens == 0 && !result.stopped) {
    throw data_error("the validation data has no token to predict",
                     "use documents of two or more tokens, and instructions whose answers fit into the context");
  }
  return result;
}

Evaluation evaluate(Session& session, const RunData& data, int64_t max_tokens,
                    const std::function<bool()>& stop_requested) {
  const auto batches = [&](const RunData::UseBatch& use) { data.visit_validation(max_tokens, use); };
  return evaluate(session, batches, stop_requested);
}

}  // namespace gradmill
