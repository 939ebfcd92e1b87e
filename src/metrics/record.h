// SPDX-License-Identifier: Apache-2.0
// What a run reports about itself, and the interface of the sinks that store or show it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace gradmill {

// The value of a number that was not measured. Files then contain null or nothing, never 0.
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Readings of the whole GPU, including other processes. All are unknown on a CPU.
struct GpuMetrics {
  double utilisation = kUnknown;  // 0 to 1: the fraction of the time in which something ran
  double watts = kUnknown;
  double celsius = kUnknown;
  size_t memory_bytes = 0;  // 0: unknown
};

struct StepMetrics {
  int64_t step = 0;  // the step that just ended, counted from 1
  double epoch = kUnknown;
  double loss = kUnknown;  // mean over the step's targets
  double lr = kUnknown;
  double grad_norm = kUnknown;  // before clipping
  double tokens_per_s = kUnknown, samples_per_s = kUnknown;
  double mfu = kUnknown;  // 0 to 1
  uint64_t tokens_seen = 0;
  double step_ms = kUnknown;
  size_t memory_bytes = 0;         // 0: unknown
  bool finite = true;              // false: the update was skipped
  double loader_stall = kUnknown;  // fraction of the step spent waiting for data, 0 to 1
  GpuMetrics gpu = {};             // over the last second or so
};

struct EvalMetrics {
  int64_t step = 0;
  double epoch = kUnknown;
  double loss = kUnknown;
  double perplexity = kUnknown;
  double seconds = kUnknown;
  bool best = false;  // the best so far by the run's criterion
  // Other metrics of the task: "accuracy", "mcc". All evaluations of a run have the same names in the same order.
  std::vector<std::pair<std::string, double>> values = {};
};

struct EpochMetrics {
  int64_t epoch = 0;  // the epoch that just ended, counted from 1
  int64_t num_epochs = 0;
  double train_loss = kUnknown;  // mean over its steps
  double seconds = kUnknown;
  double samples_per_s = kUnknown;
};

// Pruned: ended early, on purpose, because other runs are better.
enum class RunStatus : uint8_t { completed, interrupted, failed, pruned };
// As it was meant to, for good.
inline bool has_ended(RunStatus status) { return status == RunStatus::completed || status == RunStatus::pruned; }

struct RunSummary {
  RunStatus status = RunStatus::completed;
  int64_t step = 0;
  double epoch = kUnknown;
  double train_loss = kUnknown;  // mean over the run, as Hugging Face's Trainer reports it
  double best_eval_loss = kUnknown;
  std::string best_metric = {};  // the metric that chose the best checkpoint, if not the loss, and its value
  double best_value = kUnknown;
  int64_t best_step = 0;
  double seconds = kUnknown;
  double samples_per_s = kUnknown, steps_per_s = kUnknown;
  std::vector<std::string> remarks = {};  // lines to show to the user
};

using HparamValue = std::variant<std::string, double, bool>;
using Hparams = std::map<std::string, HparamValue>;

// Stores or shows what a run reports. All calls come from one thread, with steps in order. A call formats into memory;
// files are written about once a second and by flush().
//
// Resume: a sink is opened with the step to resume from, and drops everything it recorded after that step. Before a
// checkpoint of step N is saved, the caller reports everything up to N, including evaluations, and calls flush(). So
// the files of a resumed run equal those of an uninterrupted run, apart from times.
//
// Calls that write throw a data_error that names the file. Data that was not written is kept and written by a later
// call.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;

  virtual void hparams(const Hparams&) {}  // at the start
  virtual void step(const StepMetrics&) {}
  virtual void eval(const EvalMetrics&) {}
  virtual void epoch(const EpochMetrics&) {}
  virtual void text(int64_t /*step*/, std::string_view /*tag*/, std::string_view /*markdown*/) {}
  // A checkpoint of this step can be loaded from this path.
  virtual void checkpoint(int64_t /*step*/, const std::string& /*path*/) {}
  // The run went back to this step: what was recorded after it no longer counts.
  virtual void rewind(int64_t /*step*/) {}
  virtual void finish(const RunSummary&) {}
  // When this returns, the data is on disk and survives a power failure.
  virtual void flush() {}
};

// The resume step of a fresh run: everything recorded before is dropped, including step 0.
inline constexpr int64_t kFreshRun = -1;

}  // namespace gradmill
