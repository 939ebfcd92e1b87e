// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <chrono>
#include <cmath>

#include "session/generator.h"
#include "session/text_stream.h"

namespace gradmill {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Trainer::Trainer(const RunConfig& config, RunParts parts)
    : config_(config),
      parts_(std::move(parts)),
      data_(parts_.data.get()),
      run_model_(parts_.model),
      model_(*parts_.model.network),
      session_(*parts_.session),
      length_(run_length(config, data_->steps_per_epoch())),
      metric_(metric_name(config)),
      schedule_(make_schedule(config, length_.total_steps)),
      guard_(config.training),
      monitor_(session_.memory_plan().device),
      eval_interval_(config.eval.every_steps, config.eval.every_epochs, config.eval.every_minutes,
                     length_.steps_per_epoch),
      save_interval_(config.checkpoint.every_steps, config.checkpoint.every_epochs, config.checkpoint.every_minutes,
                     length_.steps_per_epoch) {
  state_.base_hash = run_model_.base_hash();
  state_.seed = static_cast<uint64_t>(config.training.seed);
  state_.data_hash = data_->hash();
  state_.vocabulary = data_->tokenizer().characters;
  state_.tokenizer_hash = data_->tokenizer().hash;
  const Task task = data_->task();
  if (task.targets() != TargetLayout::next_tokens) {
    state_.task = task.name();
    state_.labels.assign(task.labels.names().begin(), task.labels.names().end());
  }
  const SessionOptions& options = session_.options();
  const Ledger::Line step = session_.memory_plan().phase(Phase::train).ledger.total();
  flops_per_micro_batch_ = step.flops;
  flops_per_token_ = step.flops / double(options.tokens_per_micro_batch());
  const bool cpu = options.device.kind == DeviceKind::cpu;
  peak_flops_ = options.device.matrix_flops(options.dtype, options.kernels.tf32) *
                (cpu ? double(options.num_threads) / options.device.num_units : 1.0);
  speed_ = {options.device, peak_flops_, flops_per_micro_batch_ / step.seconds};
  // A GPU computes one step while the host prepares the next. To detect spikes, each loss must be known first.
  max_pending_ = cpu || guard_.watches_spikes() ? 0 : 1;
}

void Trainer::note(const std::string& line) { parts_.notes->add(line); }

void Trainer::attach(TrainServices services) {
  services_ = std::move(services);
  parts_.notes->attach(services_.note);
}

TrainOutcome Trainer::run() {
  run_start_ = Clock::now();
  check_disk();
  open_loader();
  bool rehearsed = false;
  try {
    while (submitted_ < length_.total_steps && !state_.stopped_early) {
      poll_stop();
      submit_step();
      if (!std::exchange(rehearsed, true)) {
        complete_all();
        rehearse();
        begin_step_anew();
      }
      const int64_t step = submitted_;
      const bool last = step == length_.total_steps;
      const bool eval = eval_interval_.due(step) && !last, save_now = save_interval_.due(step) && !last;
      // Evaluations and checkpoints must include exactly the steps before them.
      if (eval || save_now || last) complete_all();
      if (pending_.size() > max_pending_) complete_step();
      const bool here = state_.step == step;  // not pending, and not rolled back
      if (eval && here) {
        const Assessment result = evaluate_and_judge();
        if (state_.pruned) return pruned(result);
      }
      if (save_now && here && saved_step_ != step) save();
      if ((eval || save_now) && here) begin_step_anew();
    }
    return finish();
  } catch (const Interrupted&) {
    complete_all();
    return interrupted();
  }
}

void Trainer::open_loader() {
  submitted_ = state_.step;
  begin_step_anew();
  source_.reset();
  source_ = data_->open({state_.step, state_.data_place}, [this](const std::string& line) { source_notes_.add(line); });
}

void Trainer::begin_step_anew() { last_step_end_ = Clock::now(); }

void Trainer::poll_stop() const {
  if (ranks().any(services_.stop_requested())) throw Interrupted{};
}

void Trainer::submit_step() {
  const auto start = Clock::now();
  Pending step{.batch = source_->next(), .data_place = source_->place()};
  step.stall_seconds = seconds_since(start);
  for (const std::string& line : source_notes_.take()) services_.note(line);
  step.lr = static_cast<float>(double(schedule_.at(step.batch.step)) * state_.lr_factor);
  step.loss_limit = guard_.loss_limit(state_);
  session_.begin_weighted_step(step.batch.step, step.lr, step.batch.divisor(), step.loss_limit);
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
  state_.data_place = step.data_place;
  state_.updates = result.progress.updates;
  state_.loss_scale = result.progress.loss_scale;
  state_.scale_streak = result.progress.scale_streak;
  state_.tokens_seen += static_cast<uint64_t>(step.batch.tokens());
  // A batch may have no target, for example if answers were cut off or a class has weight 0.
  const double divisor = step.batch.divisor();
  last_loss_ = divisor > 0 ? result.loss_sum / divisor : 0;
  if (result.finite) {
    state_.loss_total += last_loss_;
    ++state_.finite_steps;
    state_.epoch_loss_total += last_loss_;
    ++state_.epoch_steps;
  }
  epoch_seconds_ += step_seconds_;
  ++process_steps_;
  report_step(step, result);
  judge(step, result);
}

void Trainer::judge(const Pending& step, const Session::StepResult& result) {
  const bool spike = !result.finite && last_loss_ > double(step.loss_limit);
  const bool rescaled = !result.finite && std::isfinite(last_loss_) && config_.machine.dtype == "fp16";
  if (spike) {
    services_.note(fmt::format("step {}: loss {:.4f} is far above its running mean of {:.4f}: the update was skipped",
                               state_.step, last_loss_, state_.running_loss));
  } else if (rescaled) {
    ++state_.scale_skips;
    services_.note(fmt::format("step {}: fp16 gradients overflowed: the update was skipped, the loss scale is now {:g}",
                               state_.step, result.progress.loss_scale));
  } else if (!result.finite) {
    services_.note(fmt::format("step {}: the update was skipped: {}", state_.step, session_.diagnose(step.batch)));
  }
  if (state_.step % length_.steps_per_epoch == 0) report_epoch();
  // An overflow is not a bad step as long as the loss scale can still shrink to avoid it.
  const bool good = result.finite || (rescaled && result.progress.loss_scale > 1);
  if (good && !result.finite) return;
  if (guard_.must_roll_back(state_, good, last_loss_)) roll_back();
}

TrainOutcome Trainer::finish() {
  restore_best();
  // A failing evaluation must not lose the end of the run.
  if (!state_.stopped_early && saved_step_ != state_.step) save();
  const auto start = Clock::now();
  const Assessment result = evaluate(true);
  TrainOutcome outcome{.step = state_.step,
                       .train_loss = last_loss_,
                       .validation_loss = result.loss,
                       .validation_values = result.values,
                       .sample = {}};
  const bool best = !state_.stopped_early && take_if_best(result);
  report_eval(result, start, best);
  if (result.threshold) keep_threshold(*result.threshold, state_.stopped_early ? state_.best_step : state_.step);
  if (best && !result.threshold) save_state(state_);
  outcome.sample = sample(config_.sample.tokens);
  if (!outcome.sample.empty()) services_.metrics->text(state_.step, "sample", outcome.sample);
  if (result.threshold && !state_.stopped_early) tune_threshold_of_best();
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
          .validation_values = {},
          .sample = {}};
}

TrainOutcome Trainer::pruned(const Assessment& result) {
  if (saved_step_ != state_.step) save();
  const std::string line = fmt::format("pruned after the evaluation of step {}", state_.step);
  services_.note(line);
  services_.metrics->text(state_.step, "pruned", line);
  services_.metrics->finish(summary(RunStatus::pruned));
  return {.status = RunStatus::pruned,
          .step = state_.step,
          .train_loss = last_loss_,
          .validation_loss = result.loss,
          .validation_values = result.values,
          .sample = {}};
}

std::string Trainer::sample(int64_t tokens) {
  if (tokens == 0 || model_.spec().head != HeadKind::causal_lm || !ranks().is_first()) return {};
  const RunTokenizer& tokenizer = data_->tokenizer();
  const std::vector<TokenId> prompt = data_->prompt();
  const GenerateOptions options{.max_tokens = tokens,
                                .sampler = sampler_options(config_),
                                .stop_token = end_of_text(tokenizer, config_.data),
                                .num_ids = tokenizer.tokenizer->vocab_size()};
  TextStream text(*tokenizer.tokenizer, prompt);
  std::string written;
  generate(session_, prompt, options, [&](int32_t token) {
    written += text.add(token);
    return !services_.stop_requested();
  });
  return written + text.finish();
}

}  // namespace gradmill
