// SPDX-License-Identifier: Apache-2.0
#include "run/assess.h"

#include "metrics/scores/text_metrics.h"
#include "run/task_evaluation.h"

namespace gradmill {
namespace {

Assessment assess_tokens(Session& session, const RunData& data, const AssessOptions& options) {
  const Evaluation result = evaluate(session, data, options.max_tokens, options.stop_requested);
  if (result.stopped) return {.stopped = true};
  return {.loss = result.loss(), .perplexity = perplexity(result.loss()), .metric = result.loss()};
}

}  // namespace

Assessment assess(Session& session, const Task& task, const RunData& data, const AssessOptions& options) {
  if (task.predicts_tokens()) return assess_tokens(session, data, options);
  const auto batches = [&](const RunData::UseBatch& use) { data.visit_validation(0, use); };
  const TaskAnswers answers = answer(session, task, batches, options.stop_requested);
  if (session.options().communicator->any(answers.stopped)) return {.stopped = true};
  TaskScores scores = score(answers, task, session.options().class_weights);
  Assessment result{.loss = scores.loss, .metric = scores.value(options.metric), .values = std::move(scores.values)};
  if (options.threshold != "none") result.threshold = tune_threshold(answers, threshold_goal(options.threshold));
  return result;
}

void evaluate_unseen(Session& session, const Task& task, const VisitBatches& batches,
                     const std::function<bool()>& stop_requested) {
  if (task.predicts_tokens()) {
    evaluate(session, batches, stop_requested);
  } else {
    answer(session, task, batches, stop_requested);
  }
}

}  // namespace gradmill
