// SPDX-License-Identifier: Apache-2.0
// The training loop: load, step, judge, evaluate, save.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/store.h"
#include "metrics/record.h"
#include "train/interval.h"
#include "train/run_data.h"
#include "train/run_options.h"
#include "train/step_guard.h"
#include "train/train_state.h"

namespace gradmill {

// What a run needs from outside.
struct TrainServices {
  MetricsSink* metrics = nullptr;                                     // must be given
  CheckpointStore* store = nullptr;                                   // null: nothing is saved
  std::function<bool()> stop_requested = [] { return false; };        // polled wherever the run may take long
  std::function<void(const std::string&)> note = [](const auto&) {};  // a line for people
  std::string config_yaml;                                            // kept in every checkpoint
};

struct TrainOutcome {
  RunStatus status = RunStatus::completed;
  int64_t step = 0;
  double train_loss = 0;       // of the last step of this process
  double validation_loss = 0;  // over the whole validation split; with the best weights after early stopping
  std::string sample;
};

class Trainer {
 public:
  Trainer(const RunConfig& config, RunData data);

  const Transformer& model() const { return model_; }
  const RunData& data() const { return data_; }
  const RunLength& length() const { return length_; }
  double flops_per_token() const;
  Session& session() { return session_; }

  // Before anything below.
  void attach(TrainServices services) { services_ = std::move(services); }
  // Goes on from `checkpoint`. Throws a data error when it does not belong to this model and text.
  void resume(const Checkpoint& checkpoint);
  TrainOutcome run();

 private:
  struct Interrupted {};

  void step_once();
  Session::StepResult compute_step(const StepBatch& batch, float lr);
  void report_step(const StepBatch& batch, const Session::StepResult& result, float lr, double stall);
  void report_epoch();
  void roll_back();
  void evaluate_and_judge();
  double evaluate(int64_t max_tokens);
  void save();
  void restore_best();
  TrainOutcome finish();
  TrainOutcome interrupted();
  std::string sample();
  void restore(const Checkpoint& checkpoint);
  void open_loader();
  void poll_stop() const;
  RunSummary summary(RunStatus status) const;

  RunConfig config_;
  TrainServices services_;
  RunData data_;
  RunLength length_;
  Transformer model_;
  Session session_;
  Schedule schedule_;
  StepGuard guard_;
  Interval eval_interval_, save_interval_;
  TrainState state_;
  std::unique_ptr<TrainLoader> loader_;
  double flops_per_micro_batch_ = 0, peak_flops_ = 1;
  double last_loss_ = kUnknown;
  // Of this process alone: times are not part of a run's state.
  double step_seconds_ = 0, epoch_seconds_ = 0, run_seconds_ = 0;
  int64_t process_steps_ = 0;
};

}  // namespace gradmill
