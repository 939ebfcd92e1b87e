// SPDX-License-Identifier: Apache-2.0
// Shows a training run as lines of text.
#pragma once

#include "train/trainer.h"

namespace gradmill::cli {

class Console : public TrainObserver {
 public:
  void on_start(const RunInfo& info) override;
  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;
  void on_sample(const std::string& text) override;

 private:
  int64_t steps_ = 0, log_interval_ = 1;
  // Since the last line.
  double seconds_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace gradmill::cli
