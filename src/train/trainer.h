// SPDX-License-Identifier: Apache-2.0
// The training loop: load, step, check, evaluate, save.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/store.h"
#include "metrics/record.h"
#include "train/gpu_monitor.h"
#include "train/interval.h"
#include "train/note_queue.h"
#include "run/assess.h"
#include "run/open_run.h"
#include "run/run_options.h"
#include "train/speed_report.h"
#include "train/step_guard.h"
#include "run/train_state.h"

namespace gradmill {

// The services that a run gets from outside.
struct TrainServices {
  MetricsSink* metrics = nullptr;                                     // required
  CheckpointStore* store = nullptr;                                   // null: nothing is saved
  std::function<bool()> stop_requested = [] { return false; };        // polled wherever the run may take long
  std::function<void(const std::string&)> note = [](const auto&) {};  // gets a line for the user
  // Called after every evaluation except the last: true ends the run there, because it is not worth continuing.
  std::function<bool(const EvalMetrics&)> prune = [](const EvalMetrics&) { return false; };
  std::string config_yaml;  // stored in every checkpoint
};

struct TrainOutcome {
  RunStatus status = RunStatus::completed;
  int64_t step = 0;
  double train_loss = 0;  // of the last step of this process
  // Over the whole validation split, after early stopping with the best weights; for a pruned run the last
  // evaluation's.
  double validation_loss = 0;
  std::vector<std::pair<std::string, double>> validation_values;  // a task's metrics, likewise
  std::string sample;
};

class Trainer {
 public:
  Trainer(const RunConfig& config, RunParts parts);

  const Transformer& model() const { return model_; }
  const RunData& data() const { return *data_; }
  const RunModel& run_model() const { return run_model_; }
  const RunLength& length() const { return length_; }
  double flops_per_token() const { return flops_per_token_; }
  Session& session() { return session_; }

  // Resumes from `checkpoint`. Throws a data error if it does not belong to this model and tokenizer.
  void resume(const Checkpoint& checkpoint);
  // Call it before run().
  void attach(TrainServices services);
  TrainOutcome run();

 private:
  struct Interrupted {};

  // A step that the device may still be computing.
  struct Pending {
    StepBatch batch;
    std::string data_place = {};  // after the step
    float lr = 0, loss_limit = 0;
    double stall_seconds = 0;  // the device may have waited this long for the batch
    Runtime::Read result = 0;
  };
  void submit_step();
  // Completes the oldest pending step, or all of them, and adds them to the state.
  void complete_step();
  void complete_all();
  void judge(const Pending& step, const Session::StepResult& result);
  void report_step(const Pending& step, const Session::StepResult& result);
  void report_epoch();
  void roll_back();
  Assessment evaluate_and_judge();
  // `last`: the last evaluation of the run, on all validation data, which also tunes the threshold.
  Assessment evaluate(bool last);
  // Stores the threshold in the checkpoint of the step whose weights it was tuned with.
  void keep_threshold(const Threshold& threshold, int64_t step);
  void tune_threshold_of_best();
  bool take_if_best(const Assessment& result);
  // Returns the numbers that it reports.
  EvalMetrics report_eval(const Assessment& result, std::chrono::steady_clock::time_point start, bool best);
  void save();
  // Writes the state into the checkpoint of its step.
  void save_state(const TrainState& state);
  // Changes the store and removes old checkpoints. Returns false if that failed but the run continues.
  bool change_store(const std::function<void()>& change);
  void restore_best();
  TrainOutcome finish();
  TrainOutcome interrupted();
  TrainOutcome pruned(const Assessment& result);
  std::string sample(int64_t tokens);
  // Evaluates and generates a little, so that problems show now and not after hours: validation data without targets,
  // or memory that the driver takes for kernels and graphs at their first use.
  void rehearse();
  // Checks whether the checkpoints to be kept will fit on the disk.
  void check_disk() const;
  void restore(const Checkpoint& checkpoint);
  void check_same_tokenizer(const TrainState& saved) const;
  void open_loader();
  void poll_stop() const;
  Communicator& ranks() const { return *session_.options().communicator; }
  // Evaluations and checkpoints must not count into the time of the step after them.
  void begin_step_anew();
  RunSummary summary(RunStatus status) const;
  // Notes a line for the user; kept until it can be shown.
  void note(const std::string& line);

  RunConfig config_;
  TrainServices services_;
  RunParts parts_;
  RunData* data_;
  const RunModel& run_model_;
  const Transformer& model_;
  Session& session_;
  RunLength length_;
  std::string metric_;
  Schedule schedule_;
  StepGuard guard_;
  GpuMonitor monitor_;
  Interval eval_interval_, save_interval_;
  TrainState state_;
  int64_t saved_step_ = -1;  // the step of the last checkpoint that this process wrote
  NoteQueue source_notes_;
  std::unique_ptr<BatchSource> source_;
  std::deque<Pending> pending_;
  size_t max_pending_ = 0;  // steps submitted before the result of the oldest is read
  int64_t submitted_ = 0;   // steps done, including the pending ones
  double flops_per_micro_batch_ = 0, flops_per_token_ = 0, peak_flops_ = 1;
  SpeedReport speed_;
  double last_loss_ = kUnknown;
  // For this process only: times are not part of a run's state.
  std::chrono::steady_clock::time_point run_start_, last_step_end_;
  double step_seconds_ = 0, epoch_seconds_ = 0;
  int64_t process_steps_ = 0;
};

}  // namespace gradmill
