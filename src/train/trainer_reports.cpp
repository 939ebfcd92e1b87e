// SPDX-License-Identifier: Apache-2.0
// Trainer: reports to the metrics.
#include <algorithm>
#include <cmath>

#include "train/trainer.h"

namespace gradmill {

void Trainer::report_step(const Pending& step, const Session::StepResult& result) {
  // If batches use only a part of the rows, FLOPs are those of the useful tokens.
  const double flops = step.batch.num_tokens ? flops_per_token_ * double(*step.batch.num_tokens)
                                             : flops_per_micro_batch_ * double(step.batch.micro.size());
  const GpuMetrics& gpu = monitor_.metrics(state_.step % config_.logging.every_steps == 0);
  speed_.add({.seconds = step_seconds_,
              .stall_seconds = step.stall_seconds,
              .tokens = double(step.batch.tokens()),
              .flops = flops,
              .utilisation = gpu.utilisation});
  services_.metrics->step({.step = state_.step,
                           .epoch = length_.epoch_of(state_.step),
                           .loss = last_loss_,
                           .lr = step.lr,
                           .grad_norm = result.grad_norm,
                           .tokens_per_s = double(step.batch.tokens()) / step_seconds_,
                           .samples_per_s = double(config_.training.batch_size) / step_seconds_,
                           .mfu = flops / step_seconds_ / peak_flops_,
                           .tokens_seen = state_.tokens_seen,
                           .step_ms = step_seconds_ * 1e3,
                           .memory_bytes = session_.memory_plan().allocated_bytes(),
                           .finite = result.finite,
                           .loader_stall = step.stall_seconds / step_seconds_,
                           .gpu = gpu});
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

RunSummary Trainer::summary(RunStatus status) const {
  const double seconds = seconds_since(run_start_);
  const double steps = double(std::max<int64_t>(1, state_.finite_steps));
  const bool evaluated = std::isfinite(state_.best_loss);
  return {.status = status,
          .step = state_.step,
          .epoch = length_.epoch_of(state_.step),
          .train_loss = state_.finite_steps > 0 ? state_.loss_total / steps : kUnknown,
          .best_eval_loss = evaluated ? state_.best_loss : kUnknown,
          .best_metric = metric_ == "loss" ? "" : metric_,
          .best_value = state_.best_value.value_or(kUnknown),
          .best_step = state_.best_step,
          .seconds = seconds,
          .samples_per_s = double(config_.training.batch_size) * double(process_steps_) / seconds,
          .steps_per_s = double(process_steps_) / seconds,
          .remarks = speed_.lines(config_)};
}

}  // namespace gradmill
