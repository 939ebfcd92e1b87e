// SPDX-License-Identifier: Apache-2.0
// The metrics files of a run's folder, opened together.
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
  std::vector<std::string> eval_values = {};  // the names of EvalMetrics::values
};

// metrics.jsonl, metrics.csv, events.out.tfevents.*, trainer_state.json. Throws a data_error when one cannot be opened;
// once training runs, a file that cannot be written is only warned about.
std::unique_ptr<SinkList> open_run_metrics(const std::filesystem::path& folder, const RunMetricsOptions& options,
                                           SinkList::Warn warn);

}  // namespace gradmill
