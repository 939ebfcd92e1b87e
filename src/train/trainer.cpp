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
      session_(model_, make_session_options()),
      schedule_(make_schedule(config, length_.total_steps)),
      guard_(config.training),
      monitor_(session_.memory_plan().device),
      eval_interval_(config.eval.every_steps, config.eval.every_epochs, config.eval.every_minutes,
                     length_.steps_per_epoch),
      save_interval_(config.checkpoint.every_steps, config.checkpoint.every_epochs, config.checkpoint.every_minutes,
                     length_.steps_per_epoch) {
  state_.seed = static_cast<uint64_t>(config.training.seed);
  state_.data_hash = data_.hash;
  state_.vocabulary = data_.vocab.characters();
  const SessionOptions options = session_options(config);
  flops_per_micro_batch_ = session_.memory_plan().phase(Phase::train).ledger.total().flops;
  const bool cpu = options.device.kind == DeviceKind::cpu;
  peak_flops_ =
      options.device.matrix_flops(options.dtype) * (cpu ? double(options.num_threads) / options.device.num_units : 1.0);
  // A GPU computes one step while the host prepares the next. To judge spikes, each loss must be known first.
  max_pending_ = cpu || guard_.watches_spikes() ? 0 : 1;
}

SessionOptions Trainer::make_session_options() {
  SessionOptions options = session_options(config_);
  options.note = [this](const std::string& line) {
    if (services_.metrics == nullptr) return early_notes_.push_back(line);
    services_.note(line);
  };
  return options;
}

void Trainer::attach(TrainServices services) {
  services_ = std::move(services);
  for (const std::string& line : early_notes_) services_.note(line);
  early_notes_.clear();
}

TrainOutcome Trainer::run() {
  open_loader();
  try {
    while (submitted_ < length_.total_steps && !state_.stopped_early) {
      poll_stop();
      submit_step();
      const int64_t step = submitted_;
      const bool last = step == length_.total_steps;
      const bool eval = eval_interval_.due(step) && !last, save_now = save_interval_.due(step) && !last;
      // What follows must see exactly the steps before it.
      if (eval || save_now || last) complete_all();
      if (pending_.size() > max_pending_) complete_step();
      const bool here = state_.step == step;  // not pending, and not rolled back
      if (eval && here) evaluate_and_judge();
      if (save_now && here) save();
    }
    return finish();
  } catch (const Interrupted&) {
    complete_all();
    return interrupted();
  }
}

double Trainer::flops_per_token() const {
  return flops_per_micro_batch_ / double(session_options(config_).train_seqs * config_.model.context);
}

void Trainer::open_loader() {
  submitted_ = state_.step;
  last_step_end_ = Clock::now();
  loader_ = std::make_unique<TrainLoader>(data_.tokens.train, loader_options(config_), state_.step);
}

void Trainer::poll_stop() const {
  if (services_.stop_requested()) throw Interrupted{};
}

void Trainer::submit_step() {
  const auto start = Clock::now();
  Pending step{.batch = loader_->next()};
  step.stall_seconds = seconds_since(start);
  step.lr = static_cast<float>(double(schedule_.at(step.batch.step)) * state_.lr_factor);
  step.loss_limit = guard_.loss_limit(state_);
  session_.begin_step(step.batch.step, step.lr, step.batch.num_targets, step.loss_limit);
  for (const MicroBatch& micro : step.batch.micro) session_.train_micro(micro);
  step.result = session_.submit_step();
  submitted_ = step.batch.step + 1;
  pending_.push_back(std::move(step));
}

void Trainer::complete_all() {
  while (!pending_.empty()) complete_step();
}

void Trainer::complete_step() {
  const Pending step = std::move(pending_.front());
  pending_.pop_front();
  const Session::StepResult result = session_.wait(step.result);
  step_seconds_ = seconds_since(last_step_end_);
  last_step_end_ = Clock::now();

  state_.step = step.batch.step + 1;
  state_.updates = result.progress.updates;
  state_.loss_scale = result.progress.loss_scale;
  state_.scale_streak = result.progress.scale_streak;
  state_.tokens_seen += static_cast<uint64_t>(step.batch.num_targets);
  last_loss_ = result.loss_sum / double(step.batch.num_targets);
  if (result.finite) {
    state_.loss_total += last_loss_;
    ++state_.finite_steps;
    state_.epoch_loss_total += last_loss_;
    ++state_.epoch_steps;
  }
  epoch_seconds_ += step_seconds_;
  run_seconds_ += step_seconds_;
  ++process_steps_;
  report_step(step, result);
  judge(step, result);
}

void Trainer::judge(const Pending& step, const Session::StepResult& result) {
  const bool spike = !result.finite && last_loss_ > double(step.loss_limit);
  const bool rescaled = !result.finite && std::isfinite(last_loss_) && config_.machine.dtype == "fp16";
  if (spike) {
    services_.note(fmt::format("step {}: loss {:.4f} is far above its mean of {:.4f}: the update was skipped",
                               state_.step, last_loss_, state_.running_loss));
  } else if (rescaled) {
    ++state_.scale_skips;
    services_.note(fmt::format("step {}: fp16 gradients overflowed: the update was skipped, the loss scale is now {:g}",
                               state_.step, result.progress.loss_scale));
  } else if (!result.finite) {
    services_.note(fmt::format("step {}: the update was skipped: {}", state_.step, session_.diagnose(step.batch)));
  }
  if (state_.step % length_.steps_per_epoch == 0) report_epoch();
  // An overflow that a smaller loss scale will cure is not a bad step, as long as it can still shrink.
  const bool good = result.finite || (rescaled && result.progress.loss_scale > 1);
  if (good && !result.finite) return;
  if (guard_.must_roll_back(state_, good, last_loss_)) roll_back();
}

void Trainer::report_step(const Pending& step, const Session::StepResult& result) {
  const double flops = flops_per_micro_batch_ * double(step.batch.micro.size());
  services_.metrics->step({.step = state_.step,
                           .epoch = length_.epoch_of(state_.step),
                           .loss = last_loss_,
                           .lr = step.lr,
                           .grad_norm = result.grad_norm,
                           .tokens_per_s = double(step.batch.num_targets) / step_seconds_,
                           .samples_per_s = double(config_.training.batch_size) / step_seconds_,
                           .mfu = flops / step_seconds_ / peak_flops_,
                           .tokens_seen = state_.tokens_seen,
                           .step_ms = step_seconds_ * 1e3,
                           .memory_bytes = session_.memory_plan().slab_bytes(),
                           .finite = result.finite,
                           .loader_stall = step.stall_seconds / step_seconds_,
                           .gpu = monitor_.metrics(state_.step % config_.logging.every_steps == 0)});
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
  // What was submitted since belongs to the future that is given up.
  for (const Pending& step : pending_) session_.wait(step.result);
  pending_.clear();
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
  const Session::HostState values = session_.host_state();
  CheckpointFile state_file{kStateFile, {}};
  for (const Session::StateTensor& tensor : values.optimizer) state_file.tensors.push_back({tensor.name, tensor.view});
  CheckpointWrite write;
  write.step = state_.step;
  write.files = {{kModelFile, model_tensors(model_, values.masters)}, std::move(state_file)};
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
  load_session(checkpoint, model_, session_, progress_of(state_));
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
  load_session(services_.store->open(state_.best_step), model_, session_, progress_of(state_));
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
