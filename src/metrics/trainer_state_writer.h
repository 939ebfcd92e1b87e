// SPDX-License-Identifier: Apache-2.0
// Writes trainer_state.json like Hugging Face's Trainer: plotting scripts read its log_history.
#pragma once

#include <filesystem>
#include <memory>

#include "metrics/record.h"

namespace gradmill {

struct TrainerStateOptions {
  int64_t max_steps = 0;
  int64_t num_train_epochs = 0;
  int64_t train_batch_size = 0;
  int64_t logging_steps = 10;  // log_history contains the steps that are multiples of this
  int64_t eval_steps = 0;      // 0: unknown
  int64_t save_steps = 0;
  double flops_per_token = 0;   // 0: total_flos stays 0
  std::string metric = "loss";  // the metric that chooses the best checkpoint: the loss, or a name in
                                // EvalMetrics::values
  bool larger_is_better = false;
};

// Kept in memory; flush() and finish() replace the whole file. A history entry contains the step's own loss, not a mean
// since the last entry, so that a resumed run writes the same.
class TrainerStateWriter final : public MetricsSink {
 public:
  // On resume, throws a data_error if the file exists but was not written by this class.
  TrainerStateWriter(const std::filesystem::path& path, int64_t resume_step, const TrainerStateOptions& options);
  ~TrainerStateWriter() override;

  void step(const StepMetrics& metrics) override;
  void eval(const EvalMetrics& metrics) override;
  void checkpoint(int64_t step, const std::string& path) override;
  void rewind(int64_t step) override;
  void finish(const RunSummary& summary) override;
  void flush() override;

 private:
  struct State;
  std::filesystem::path path_;
  TrainerStateOptions options_;
  std::unique_ptr<State> state_;
};

}  // namespace gradmill
