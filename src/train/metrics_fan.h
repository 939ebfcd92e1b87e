// SPDX-License-Identifier: Apache-2.0
// Sends metrics to files and screen. The screen gets every step; files get every n-th, the last one, and rare events.
#pragma once

#include <optional>

#include "metrics/record.h"

namespace gradmill {

class MetricsFan final : public MetricsSink {
 public:
  // `screen` may be null.
  MetricsFan(MetricsSink& files, MetricsSink* screen, int64_t every_steps)
      : files_(files), screen_(screen), every_steps_(every_steps) {}

  void hparams(const Hparams& values) override { files_.hparams(values); }
  void step(const StepMetrics& metrics) override {
    const bool write = metrics.step % every_steps_ == 0 || !metrics.finite;
    if (write) files_.step(metrics);
    unwritten_ = write ? std::nullopt : std::optional(metrics);
    if (screen_ != nullptr) screen_->step(metrics);
  }
  void eval(const EvalMetrics& metrics) override {
    both([&](MetricsSink& sink) { sink.eval(metrics); });
  }
  void epoch(const EpochMetrics& metrics) override {
    both([&](MetricsSink& sink) { sink.epoch(metrics); });
  }
  void text(int64_t step, std::string_view tag, std::string_view markdown) override {
    files_.text(step, tag, markdown);
  }
  void checkpoint(int64_t step, const std::string& path) override {
    both([&](MetricsSink& sink) { sink.checkpoint(step, path); });
  }
  void rewind(int64_t step) override {
    both([&](MetricsSink& sink) { sink.rewind(step); });
  }
  void finish(const RunSummary& summary) override {
    // An interrupted run may be resumed; its files must then equal those of an uninterrupted run.
    if (unwritten_ && has_ended(summary.status)) files_.step(*unwritten_);
    both([&](MetricsSink& sink) { sink.finish(summary); });
  }
  void flush() override { files_.flush(); }

 private:
  template <class Call>
  void both(const Call& call) {
    call(files_);
    if (screen_ != nullptr) call(*screen_);
  }

  MetricsSink& files_;
  MetricsSink* screen_;
  int64_t every_steps_;
  std::optional<StepMetrics> unwritten_;
};

}  // namespace gradmill
