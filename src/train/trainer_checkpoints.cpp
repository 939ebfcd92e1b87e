// SPDX-License-Identifier: Apache-2.0
// Trainer: saving, resuming, rolling back.
#include <algorithm>

#include "adapters/peft_folder.h"
#include "run/model_folder.h"
#include "train/trainer.h"

namespace gradmill {

void Trainer::save() {
  if (services_.store == nullptr) return;
  services_.metrics->flush();
  const Session::HostState values = session_.host_state();
  CheckpointFile state_file{kStateFile, {}};
  for (const StateTensor& tensor : values.beside) state_file.tensors.push_back({tensor.name, tensor.view});
  CheckpointWrite write;
  write.step = state_.step;
  write.files = {weights_file(run_model_, model_, values.masters), std::move(state_file)};
  const RunTokenizer& tokenizer = data_->tokenizer();
  write.texts = tokenizer.files;
  write.texts.push_back({"config.json", run_model_.config_json(end_of_text(tokenizer, config_.data))});
  if (run_model_.adapters) write.texts.push_back({kAdapterConfigFile, adapter_json(run_model_)});
  write.texts.push_back({kKeptConfigFile, services_.config_yaml});
  write.state_json = to_json(state_);
  if (!change_store([&] { services_.store->save(write); })) return;
  saved_step_ = state_.step;
  services_.metrics->checkpoint(state_.step, services_.store->path(state_.step).string());
}

void Trainer::save_state(const TrainState& state) {
  if (services_.store == nullptr || services_.store->path(state.step).empty()) return;
  change_store([&] { services_.store->replace_state(state.step, to_json(state)); });
}

// The first rank writes, and all ranks learn how it went.
bool Trainer::change_store(const std::function<void()>& change) {
  enum Outcome : int64_t { done, failed, must_stop };
  int64_t outcome = done;
  std::exception_ptr reason;
  if (ranks().is_first()) {
    try {
      change();
      services_.store->prune(config_.checkpoint.keep_last,
                             config_.checkpoint.keep_best ? std::optional(state_.best_step) : std::nullopt);
    } catch (const Error& error) {
      outcome = config_.checkpoint.on_error == "stop" ? must_stop : failed;
      reason = std::current_exception();
      if (outcome == failed) services_.note(fmt::format("warning: {}; training continues", error.what()));
    } catch (...) {
      outcome = must_stop;
      reason = std::current_exception();
    }
  }
  outcome = ranks().agree(outcome);
  if (outcome != must_stop) return outcome == done;
  if (reason) std::rethrow_exception(reason);
  throw Error(ExitCode::failure, "the first rank could not save a checkpoint", "see its message");
}

void Trainer::check_disk() const {
  const std::optional<size_t> free = services_.store != nullptr ? services_.store->free_bytes() : std::nullopt;
  if (!free) return;
  const size_t each = session_.state_bytes();
  // The last checkpoint; those kept during the run, where a new one is complete before the oldest is removed; the best.
  const bool several = save_interval_.is_on(), best = config_.checkpoint.keep_best && eval_interval_.is_on();
  const int64_t wanted = 1 + (several ? config_.checkpoint.keep_last : 0) + (best ? 1 : 0);
  const int64_t more = std::max<int64_t>(1, wanted - std::ssize(services_.store->steps()));
  const std::string shortage = shortage_of_space(*free, each, more);
  if (shortage.empty()) return;
  if (*free < each && config_.checkpoint.on_error == "stop") {
    throw Error(ExitCode::failure, shortage, "free space, or use a checkpoint.dir on another disk");
  }
  services_.note(fmt::format("warning: {}; free space, or lower checkpoint.keep_last", shortage));
}

void Trainer::restore(const Checkpoint& checkpoint) {
  state_ = state_from_json(checkpoint.state_json());
  load_session(checkpoint, model_, run_model_, session_, progress_of(state_));
}

void Trainer::check_same_tokenizer(const TrainState& saved) const {
  const RunTokenizer& tokenizer = data_->tokenizer();
  const bool was_chars = !saved.vocabulary.empty();
  if (tokenizer.is_chars() != was_chars) {
    throw data_error(fmt::format("this run was trained on {}, but the settings now name {}",
                                 was_chars ? "characters" : "tokens", was_chars ? "tokens" : "characters"),
                     "resume with the same data.dataset, or data.path and data.tokenizer, or start a new run");
  }
  if (saved.vocabulary != state_.vocabulary) {
    throw data_error(
        fmt::format("the characters of the text '{}' differ from those of the text this run was trained on",
                    data_->name()),
        "resume with the same data.dataset and data.max_chars, or start a new run");
  }
  if (saved.tokenizer_hash != state_.tokenizer_hash) {
    throw data_error(fmt::format("the tokenizer '{}' is not the one this run was trained with", config_.data.tokenizer),
                     "resume with data.tokenizer=CHECKPOINT, which has a copy of its files, or start a new run");
  }
}

void Trainer::resume(const Checkpoint& checkpoint) {
  const TrainState saved = state_from_json(checkpoint.state_json());
  check_same_tokenizer(saved);
  check_same_base(saved, run_model_);
  if (saved.task != state_.task || saved.labels != state_.labels) {
    throw data_error("this run was trained for another task, or for other classes",
                     "resume with the same data.task and data.labels, or start a new run");
  }
  if (saved.data_hash != state_.data_hash) {
    note(data_->tokenizer().is_chars()
             ? "the text has changed since the checkpoint (with the same characters): the order of batches continues, "
               "but the content differs"
             : "the data has changed since the checkpoint: steps continue, but their content differs");
  }
  const std::string data_hash = state_.data_hash;
  const uint64_t seed = state_.seed;
  restore(checkpoint);
  state_.data_hash = data_hash;
  state_.seed = seed;
  // The settings may now ask for more patience or more steps.
  state_.stopped_early = state_.pruned = false;
}

// After early stopping the run's result is its best checkpoint.
void Trainer::restore_best() {
  if (!state_.stopped_early || services_.store == nullptr || !config_.checkpoint.keep_best ||
      state_.best_step == state_.step)
    return;
  load_session(services_.store->open(state_.best_step), model_, run_model_, session_, progress_of(state_));
  services_.note(fmt::format("stopped early: no better {} for {} evaluations; back to the best, step {}", metric_,
                             state_.evals_since_best, state_.best_step));
}

void Trainer::roll_back() {
  auto checkpoint = services_.store ? services_.store->newest() : std::nullopt;
  // All ranks go back to the checkpoint that the first one sees.
  const int64_t newest = ranks().agree(checkpoint ? checkpoint->step() : -1);
  if (newest >= 0 && (!checkpoint || checkpoint->step() != newest)) checkpoint = services_.store->open(newest);
  const std::string bad = fmt::format("{} bad steps in a row up to step {}", state_.bad_steps, state_.step);
  if (!checkpoint || state_.rollbacks >= config_.training.max_rollbacks) {
    throw Error(ExitCode::failure,
                fmt::format("{}: the loss or gradient is not finite, or jumps, and {}", bad,
                            checkpoint ? fmt::format("{} roll-backs did not help", state_.rollbacks)
                                       : std::string("there is no checkpoint to go back to")),
                fmt::format("try optimizer.lr={:.2g} schedule.warmup_steps={}", config_.optimizer.lr / 2,
                            std::max<int64_t>(200, 2 * config_.schedule.warmup_steps)));
  }
  // Steps submitted since are given up.
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
      "{}: going back to step {} with the learning rate times {:.3g}; if it happens again, try optimizer.lr={:.2g}",
      bad, state_.step, lr_factor, config_.optimizer.lr * lr_factor));
  open_loader();
}

}  // namespace gradmill
