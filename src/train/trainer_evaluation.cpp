// SPDX-License-Identifier: Apache-2.0
// Trainer: evaluations, and the choice of the best.
#include <algorithm>
#include <cmath>

#include "run/model_folder.h"
#include "train/trainer.h"

namespace gradmill {

Assessment Trainer::evaluate(bool last) {
  const AssessOptions options{.metric = metric_,
                              .max_tokens = last ? 0 : config_.eval.tokens,
                              .threshold = last ? config_.eval.threshold : "none",
                              .stop_requested = services_.stop_requested};
  if (session_.has_average()) session_.exchange_average();
  const auto put_back = [&] {
    if (session_.has_average()) session_.exchange_average();
  };
  try {
    Assessment result = assess(session_, run_model_.task, *data_, options);
    if (result.stopped) throw Interrupted{};
    put_back();
    return result;
  } catch (...) {
    // Swap back: a checkpoint must hold the weights, not the averages.
    put_back();
    throw;
  }
}

void Trainer::rehearse() {
  // Twice, because graphs are captured the second time.
  const auto batches = [&](const RunData::UseBatch& use) {
    data_->visit_validation(0, [&](const MicroBatch& batch) {
      const bool go_on = use(batch) && use(batch) && batch.num_targets == 0;
      if (!go_on) session_.rehearse_evaluation(batch);
      return go_on;
    });
  };
  evaluate_unseen(session_, run_model_.task, batches, services_.stop_requested);
  if (config_.sample.tokens == 0 || model_.spec().head != HeadKind::causal_lm) return;
  // Ignores the logits: whether the model diverges is checked in steps.
  const std::vector<TokenId> prompt = data_->prompt();
  session_.start_generation(prompt);
  for (int i = 0; i < 2; ++i) session_.continue_generation(prompt.back());
}

bool Trainer::take_if_best(const Assessment& result) {
  const bool larger = larger_is_better(metric_);
  const double before = metric_ == "loss"   ? state_.best_loss
                        : state_.best_value ? *state_.best_value
                                            : (larger ? -1 : 1) * std::numeric_limits<double>::infinity();
  const double gain = larger ? result.metric - before : before - result.metric;
  if (!(gain > config_.eval.min_delta)) return false;
  state_.best_loss = result.loss;
  state_.best_step = state_.step;
  if (metric_ != "loss") state_.best_value = result.metric;
  return true;
}

Assessment Trainer::evaluate_and_judge() {
  const auto start = std::chrono::steady_clock::now();
  const Assessment result = evaluate(false);
  const bool best = take_if_best(result);
  state_.evals_since_best = best ? 0 : state_.evals_since_best + 1;
  state_.pruned = ranks().any(services_.prune(report_eval(result, start, best)));
  state_.stopped_early = config_.eval.patience > 0 && state_.evals_since_best >= config_.eval.patience;
  if (best && config_.checkpoint.keep_best) save();
  return result;
}

EvalMetrics Trainer::report_eval(const Assessment& result, std::chrono::steady_clock::time_point start, bool best) {
  EvalMetrics metrics{.step = state_.step,
                      .epoch = length_.epoch_of(state_.step),
                      .loss = result.loss,
                      .perplexity = result.perplexity,
                      .seconds = seconds_since(start),
                      .best = best,
                      .values = result.values};
  services_.metrics->eval(metrics);
  return metrics;
}

void Trainer::keep_threshold(const Threshold& threshold, int64_t step) {
  const std::string line =
      fmt::format("with the weights of step {}, the second class is predicted from a probability of {:.4f}: {} {:.4f}",
                  step, threshold.value, config_.eval.threshold, threshold.score);
  services_.note(line);
  services_.metrics->text(state_.step, "threshold", line);
  if (step == state_.step) state_.threshold = threshold.value;
  if (services_.store == nullptr || services_.store->path(step).empty()) return;
  TrainState kept = step == state_.step ? state_ : state_from_json(services_.store->open(step).state_json());
  kept.threshold = threshold.value;
  save_state(kept);
}

// The best checkpoint is the one used later, so it has its own threshold.
void Trainer::tune_threshold_of_best() {
  const int64_t step = state_.best_step;
  if (services_.store == nullptr || !config_.checkpoint.keep_best || step == state_.step) return;
  if (services_.store->path(step).empty()) return;
  load_session(services_.store->open(step), model_, run_model_, session_, progress_of(state_));
  keep_threshold(*evaluate(true).threshold, step);
}

}  // namespace gradmill
