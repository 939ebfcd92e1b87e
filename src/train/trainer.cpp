// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <chrono>
#include <cmath>
#include <cstring>

#include "train/generator.h"
#include "train/model_folder.h"

namespace gradmill {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

Trainer::Trainer(const RunConfig& config, RunData data)
    : config_(config),
      data_(std::move(data)),
      length_(run_length(config, static_cast<int64_t>(data_.tokens.train.size()))),
      model_(model_spec(config, data_.vocab.size())),
      session_(model_, session_options(config)),
      schedule_(make_schedule(config, length_.total_steps)),
      guard_(config.training),
      eval_interval_(config.eval.every_steps, config.eval.every_epochs, config.eval.every_minutes,
                     length_.steps_per_epoch),
      save_interval_(config.checkpoint.every_steps, config.checkpoint.every_epochs, config.checkpoint.every_minutes,
                     length_.steps_per_epoch) {
  state_.seed = static_cast<uint64_t>(config.training.seed);
  state_.data_hash = data_.hash;
  state_.vocabulary = data_.vocab.characters();
  const SessionOptions options = session_options(config);
  flops_per_micro_batch_ = session_.memory_plan().phase(Phase::train).ledger.total().flops;
  peak_flops_ = options.device.matrix_flops(options.dtype) * options.num_threads / options.device.num_units;
}

TrainOutcome Trainer::run() {
  open_loader();
  try {
    while (state_.step < length_.total_steps && !state_.stopped_early) {
      poll_stop();
      step_once();
      const bool last = state_.step == length_.total_steps;
      if (eval_interval_.due(state_.step) && !last) evaluate_and_judge();
      if (save_interval_.due(state_.step) && !last) save();
    }
    return finish();
  } catch (const Interrupted&) {
    return interrupted();
  }
}

double Trainer::flops_per_token() const {
  return flops_per_micro_batch_ / double(session_options(config_).train_seqs * config_.model.context);
}

void Trainer::open_loader() {
  loader_ = std::make_unique<TrainLoader>(data_.tokens.train, loader_options(config_), state_.step);
}

void Trainer::poll_stop() const {
  if (services_.stop_requested()) throw Interrupted{};
}

void Trainer::step_once() {
  const auto start = Clock::now();
  const StepBatch batch = loader_->next();
  const double stall = seconds_since(start);
  const auto lr = static_cast<float>(double(schedule_.at(batch.step)) * state_.lr_factor);
  const Session::StepResult result = compute_step(batch, lr);
  step_seconds_ = seconds_since(start);

  state_.step = batch.step + 1;
  state_.updates = session_.updates();
  state_.tokens_seen += static_cast<uint64_t>(batch.num_targets);
  last_loss_ = result.loss_sum / double(batch.num_targets);
  if (result.finite) {
    state_.loss_total += last_loss_;
    ++state_.finite_steps;
    state_.epoch_loss_total += last_loss_;
    ++state_.epoch_steps;
  }
  epoch_seconds_ += step_seconds_;
  run_seconds_ += step_seconds_;
  ++process_steps_;
  report_step(batch, result, lr, stall / step_seconds_);
  const bool diverged = !std::isfinite(last_loss_) || (!result.finite && !guard_.is_spike(state_, last_loss_));
  if (diverged)
    services_.note(fmt::format("step {}: the update was skipped: {}", state_.step, session_.diagnose(batch)));
  if (state_.step % length_.steps_per_epoch == 0) report_epoch();
  if (guard_.must_roll_back(state_, result.finite, last_loss_)) roll_back();
}

Session::StepResult Trainer::compute_step(const StepBatch& batch, float lr) {
  session_.begin_step(batch.step, lr, batch.num_targets);
  for (const MicroBatch& micro : batch.micro) session_.train_micro(micro);
  const double loss = session_.loss_so_far() / double(batch.num_targets);
  if (!guard_.is_spike(state_, loss)) return session_.end_step();
  services_.note(fmt::format("step {}: loss {:.4f} is far above its mean of {:.4f}: the update was skipped",
                             batch.step + 1, loss, state_.running_loss));
  return session_.abandon_step();
}

void Trainer::report_step(const StepBatch& batch, const Session::StepResult& result, float lr, double stall) {
  const double flops = flops_per_micro_batch_ * double(batch.micro.size());
  services_.metrics->step({.step = state_.step,
                           .epoch = length_.epoch_of(state_.step),
                           .loss = last_loss_,
                           .lr = lr,
                           .grad_norm = result.grad_norm,
                           .tokens_per_s = double(batch.num_targets) / step_seconds_,
                           .samples_per_s = double(config_.training.batch_size) / step_seconds_,
                           .mfu = flops / step_seconds_ / peak_flops_,
                           .tokens_seen = state_.tokens_seen,
                           .step_ms = step_seconds_ * 1e3,
                           .memory_bytes = session_.memory_plan().slab_bytes(),
                           .finite = result.finite,
                           .loader_stall = stall});
}

void Trainer::report_epoch() {
  const double steps = double(std::max<int64_t>(1, state_.epoch_steps));
  services_.metrics->epoch(
      {.epoch = state_.step / length_.steps_per_epoch,
       .num_epochs = length_.num_epochs(),
       .train_loss = state_.epoch_steps > 0 ? state_.epoch_loss_total / steps : kUnknown,
       .seconds = epoch_seconds_,
       .samples_per_s = double(config_.training.batch_size * length_.steps_per_epoch) / epoch_seconds_});
  state_.epoch_loss_total = 0;
  state_.epoch_steps = 0;
  epoch_seconds_ = 0;
}

void Trainer::roll_back() {
  const auto checkpoint = services_.store ? services_.store->newest() : std::nullopt;
  const std::string bad = fmt::format("{} bad steps in a row up to step {}", state_.bad_steps, state_.step);
  if (!checkpoint || state_.rollbacks >= config_.training.max_rollbacks) {
    throw Error(ExitCode::failure,
                fmt::format("{}: the loss or gradient is not finite or jumps, and {}", bad,
                            checkpoint ? fmt::format("{} roll-backs did not help", state_.rollbacks)
                                       : std::string("there is no checkpoint to go back to")),
                fmt::format("try optimizer.lr={:.2g} schedule.warmup_steps={}", config_.optimizer.lr / 2,
                            std::max<int64_t>(200, 2 * config_.schedule.warmup_steps)));
  }
  const int64_t rollbacks = state_.rollbacks + 1;
  const double lr_factor = state_.lr_factor * config_.training.rollback_lr_factor;
  restore(*checkpoint);
  state_.rollbacks = rollbacks;
  state_.lr_factor = lr_factor;
  state_.bad_steps = 0;
  services_.metrics->rewind(state_.step);
  services_.note(fmt::format(
      "{}: back to step {} with the learning rate times {:.3g}; if it happens again, try optimizer.lr={:.2g}", bad,
      state_.step, lr_factor, config_.optimizer.lr * lr_factor));
  open_loader();
}

double Trainer::evaluate(int64_t max_tokens) {
  if (session_.has_average()) session_.exchange_average();
  double loss = 0;
  int64_t targets = 0;
  bool stop = false;
  const int64_t seqs = session_options(config_).eval_seqs;
  for (const MicroBatch& batch : eval_batches(data_.tokens.validation, seqs, config_.model.context, max_tokens)) {
    loss += session_.eval_micro(batch);
    targets += batch.num_targets;
    stop = services_.stop_requested();
    if (stop) break;
  }
  // Also on the way out: a checkpoint must hold the weights, not the averages.
  if (session_.has_average()) session_.exchange_average();
  if (stop) throw Interrupted{};
  return loss / double(targets);
}

void Trainer::evaluate_and_judge() {
  const auto start = Clock::now();
  const double loss = evaluate(config_.eval.tokens);
  const bool best = loss < state_.best_loss - config_.eval.min_delta;
  state_.evals_since_best = best ? 0 : state_.evals_since_best + 1;
  if (best) {
    state_.best_loss = loss;
    state_.best_step = state_.step;
  }
  services_.metrics->eval({.step = state_.step,
                           .epoch = length_.epoch_of(state_.step),
                           .loss = loss,
                           .perplexity = std::exp(loss),
                           .seconds = seconds_since(start),
                           .best = best});
  state_.stopped_early = config_.eval.patience > 0 && state_.evals_since_best >= config_.eval.patience;
  if (best && config_.checkpoint.keep_best) save();
}

void Trainer::save() {
  if (services_.store == nullptr) return;
  services_.metrics->flush();
  CheckpointFile state_file{kStateFile, {}};
  for (const Session::StateTensor& tensor : session_.optimizer_state())
    state_file.tensors.push_back({tensor.name, tensor.view});
  CheckpointWrite write;
  write.step = state_.step;
  write.files = {{kModelFile, model_tensors(model_, session_.weights())}, std::move(state_file)};
  write.texts = {{"config.json", model_config_json(model_.spec())}, {"run.yaml", services_.config_yaml}};
  write.state_json = to_json(state_);
  try {
    services_.store->save(write);
    services_.store->prune(config_.checkpoint.keep_last,
                           config_.checkpoint.keep_best ? std::optional(state_.best_step) : std::nullopt);
  } catch (const Error& error) {
    if (config_.checkpoint.on_error == "stop") throw;
    services_.note(fmt::format("warning: {}; training goes on", error.what()));
    return;
  }
  services_.metrics->checkpoint(state_.step, services_.store->path(state_.step).string());
}

void Trainer::restore(const Checkpoint& checkpoint) {
  state_ = state_from_json(checkpoint.state_json());
  load_session(checkpoint, model_, session_, state_.updates);
}

void Trainer::resume(const Checkpoint& checkpoint) {
  const TrainState saved = state_from_json(checkpoint.state_json());
  if (saved.vocabulary != state_.vocabulary) {
    throw data_error(fmt::format("the text '{}' has other characters than the one this run was trained on", data_.name),
                     "resume with the same data.dataset and data.max_chars, or start a new run");
  }
  if (saved.data_hash != state_.data_hash) {
    services_.note(
        "the text has changed since the checkpoint (same characters): the order of batches goes on, the content "
        "differs");
  }
  const std::string data_hash = state_.data_hash;
  const uint64_t seed = state_.seed;
  restore(checkpoint);
  state_.data_hash = data_hash;
  state_.seed = seed;
  // More patience, or more steps, may have been asked for.
  state_.stopped_early = false;
}

// After early stopping the run's result is its best checkpoint.
void Trainer::restore_best() {
  if (!state_.stopped_early || services_.store == nullptr || !config_.checkpoint.keep_best ||
      state_.best_step == state_.step)
    return;
  load_session(services_.store->open(state_.best_step), model_, session_, state_.updates);
  services_.note(fmt::format("stopped early: no better loss for {} evaluations; back to the best, step {}",
                             state_.evals_since_best, state_.best_step));
}

TrainOutcome Trainer::finish() {
  restore_best();
  const auto start = Clock::now();
  TrainOutcome outcome{.step = state_.step, .train_loss = last_loss_, .validation_loss = evaluate(0)};
  const bool best = !state_.stopped_early && outcome.validation_loss < state_.best_loss - config_.eval.min_delta;
  if (best) {
    state_.best_loss = outcome.validation_loss;
    state_.best_step = state_.step;
  }
  services_.metrics->eval({.step = state_.step,
                           .epoch = length_.epoch_of(state_.step),
                           .loss = outcome.validation_loss,
                           .perplexity = std::exp(outcome.validation_loss),
                           .seconds = seconds_since(start),
                           .best = best});
  if (!state_.stopped_early) save();
  outcome.sample = sample();
  if (!outcome.sample.empty()) services_.metrics->text(state_.step, "sample", outcome.sample);
  services_.metrics->finish(summary(RunStatus::completed));
  return outcome;
}

TrainOutcome Trainer::interrupted() {
  save();
  services_.metrics->finish(summary(RunStatus::interrupted));
  return {.status = RunStatus::interrupted,
          .step = state_.step,
          .train_loss = last_loss_,
          .validation_loss = kUnknown,
          .sample = {}};
}

RunSummary Trainer::summary(RunStatus status) const {
  const double steps = double(std::max<int64_t>(1, state_.finite_steps));
  const bool evaluated = std::isfinite(state_.best_loss);
  return {.status = status,
          .step = state_.step,
          .epoch = length_.epoch_of(state_.step),
          .train_loss = state_.finite_steps > 0 ? state_.loss_total / steps : kUnknown,
          .best_eval_loss = evaluated ? state_.best_loss : kUnknown,
          .best_step = state_.best_step,
          .seconds = run_seconds_,
          .samples_per_s = double(config_.training.batch_size) * double(process_steps_) / run_seconds_,
          .steps_per_s = double(process_steps_) / run_seconds_};
}

// Starts from a line break (or whatever the text starts with), as a reader would.
std::string Trainer::sample() {
  if (config_.sample.tokens == 0) return {};
  const bool has_break = data_.vocab.knows(U'\n');
  const std::vector<int32_t> prompt =
      has_break ? data_.vocab.encode("\n") : std::vector<int32_t>{data_.tokens.train.front()};
  const GenerateOptions options{.max_tokens = config_.sample.tokens, .sampler = sampler_options(config_)};
  return data_.vocab.decode(generate(session_, prompt, options, [&](int32_t) { return !services_.stop_requested(); }));
}

}  // namespace gradmill
