// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <chrono>

#include "train/sampler.h"

namespace gradmill {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

TrainConfig checked(const TrainConfig& config) {
  config.check();
  return config;
}

}  // namespace

Trainer::Trainer(const TrainConfig& config, TrainObserver& observer)
    : config_(checked(config)),
      observer_(observer),
      corpus_(load_corpus(config.corpus)),
      vocab_(CharVocab::from_text(corpus_.text)),
      tokens_(split_tokens(vocab_.encode(corpus_.text), config.validation_fraction, config.context)),
      model_(model_spec(config, vocab_.size())),
      session_(model_, session_options(config)),
      schedule_(schedule(config)) {}

TrainSummary Trainer::run() {
  observer_.on_start({config_, corpus_, model_, session_.memory_plan(), session_.context().pool->num_threads(),
                      static_cast<int64_t>(tokens_.train.size()), static_cast<int64_t>(tokens_.validation.size())});
  TrainLoader loader(tokens_.train, {.batch_size = config_.batch_size, .micro_batch_size = config_.micro_batch_size,
                                     .context = config_.context, .seed = config_.seed,
                                     .num_threads = config_.loader_threads});
  TrainSummary summary;
  for (int64_t step = 0; step < config_.steps; ++step) {
    if (config_.eval_interval > 0 && step % config_.eval_interval == 0) {
      observer_.on_eval(evaluate(step, config_.eval_tokens));
    }
    const StepReport report = train_step(loader.next());
    observer_.on_step(report);
    stop_if_diverged(report);
    summary.train_loss = report.loss;
  }
  const EvalReport last = evaluate(config_.steps, 0);
  observer_.on_eval(last);
  summary.validation_loss = last.loss;
  summary.sample = sample();
  observer_.on_sample(summary.sample);
  return summary;
}

StepReport Trainer::train_step(const StepBatch& batch) {
  const auto start = Clock::now();
  const float lr = schedule_.at(batch.step);
  session_.begin_step(batch.step, lr, batch.num_targets);
  for (const MicroBatch& micro : batch.micro) session_.train_micro(micro);
  const Session::StepResult result = session_.end_step();
  return {.step = batch.step + 1, .loss = result.loss_sum / double(batch.num_targets), .lr = lr,
          .grad_norm = result.grad_norm, .finite = result.finite, .seconds = seconds_since(start),
          .tokens = batch.num_targets};
}

EvalReport Trainer::evaluate(int64_t step, int64_t max_tokens) {
  const auto start = Clock::now();
  const SessionOptions options = session_options(config_);
  EvalReport report{.step = step};
  for (const MicroBatch& batch : eval_batches(tokens_.validation, options.eval_seqs, config_.context, max_tokens)) {
    report.loss += session_.eval_micro(batch);
    report.tokens += batch.num_targets;
  }
  report.loss /= double(report.tokens);
  report.seconds = seconds_since(start);
  return report;
}

// Starts from a line break (or whatever the text starts with), as a reader would.
std::string Trainer::sample() {
  std::vector<int32_t> tokens = vocab_.knows(U'\n') ? vocab_.encode("\n") : std::vector<int32_t>{tokens_.train.front()};
  const SamplerOptions options{.temperature = config_.temperature, .top_k = config_.top_k, .seed = config_.seed};
  for (int64_t i = 0; i < config_.sample_tokens; ++i) tokens.push_back(sample_token(session_.next_logits(tokens), options, i));
  return vocab_.decode(std::span(tokens).subspan(1));
}

void Trainer::stop_if_diverged(const StepReport& report) {
  constexpr int64_t kPatience = 10;
  steps_not_finite_ = report.finite ? 0 : steps_not_finite_ + 1;
  if (steps_not_finite_ < kPatience) return;
  throw Error(ExitCode::failure, fmt::format("the loss or gradient was not finite for {} steps up to step {}", kPatience, report.step),
              "lower --lr, raise --warmup-steps, or set --clip 1");
}

}  // namespace gradmill
