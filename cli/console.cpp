// SPDX-License-Identifier: Apache-2.0
#include "console.h"

#include <cstdio>

namespace gradmill::cli {

void Console::on_start(const RunInfo& info) {
  const TransformerSpec& spec = info.model.spec();
  steps_ = info.config.steps;
  log_interval_ = info.config.log_interval;
  fmt::print("data      {} ({}): {} characters, {} distinct; {} to train on, {} to validate\n", info.corpus.name,
             info.corpus.origin, info.train_tokens + info.validation_tokens, spec.vocab, info.train_tokens,
             info.validation_tokens);
  fmt::print("model     {}: {} layers, {} heads, width {}, context {}; {} parameters\n", info.config.style, spec.layers,
             spec.heads, spec.width, spec.max_positions, info.model.params().num_parameters());
  fmt::print("machine   cpu, {} threads, {}; memory planned: {:.1f} MiB, save policy {}\n", info.num_threads,
             info.config.dtype, double(info.plan.slab_bytes()) / (1 << 20), info.config.save_policy);
  fmt::print("training  {} steps of {} x {} tokens, learning rate {} to {}\n\n", steps_, info.config.batch_size,
             info.config.context, info.config.lr, info.config.min_lr);
  std::fflush(stdout);
}

void Console::on_step(const StepReport& report) {
  seconds_ += report.seconds;
  tokens_ += report.tokens;
  if (!report.finite) fmt::print("step {:>6}/{}  not finite: the update was skipped\n", report.step, steps_);
  if (report.step % log_interval_ != 0 && report.step != steps_) return;
  fmt::print("step {:>6}/{}  loss {:.4f}  lr {:.2e}  grad norm {:.3f}  {:>8.0f} tokens/s\n", report.step, steps_,
             report.loss, report.lr, report.grad_norm, double(tokens_) / seconds_);
  std::fflush(stdout);
  seconds_ = 0;
  tokens_ = 0;
}

void Console::on_eval(const EvalReport& report) {
  fmt::print("step {:>6}/{}  validation loss {:.4f}  ({} tokens, {:.2f} s)\n", report.step, steps_, report.loss,
             report.tokens, report.seconds);
  std::fflush(stdout);
}

void Console::on_sample(const std::string& text) {
  if (!text.empty()) fmt::print("\nsample:\n{}\n", text);
}

}  // namespace gradmill::cli
