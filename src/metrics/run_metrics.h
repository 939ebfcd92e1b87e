// SPDX-License-Identifier: Apache-2.0
// Opens all metrics files of a run's folder.
#pragma once

#include <filesystem>
#include <memory>

#include "metrics/sink_list.h"
#include "metrics/trainer_state_writer.h"

namespace gradmill {

struct RunMetricsOptions {
  int64_t resume_step = kFreshRun;  // the checkpoint's step: later records are dropped
  bool jsonl = true, csv = true, tensorboard = true, trainer_state = true;
  TrainerStateOptions state;
  std::vector<std::string> eval_values = {};  // the names in EvalMetrics::values
};

// Opens metrics.jsonl, metrics.csv, events.out.tfevents.* and trainer_state.json. Throws a data_error if one cannot be
// opened. During training, a file that cannot be written only causes a warning.
std::unique_ptr<SinkList> open_run_metrics(const std::filesystem::path& folder, const RunMetricsOptions& options,
                                           SinkList::Warn warn);

}  // namespace gradmill
