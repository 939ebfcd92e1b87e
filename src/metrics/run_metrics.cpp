// SPDX-License-Identifier: Apache-2.0
#include "metrics/run_metrics.h"

#include <utility>

#include "metrics/csv_writer.h"
#include "metrics/jsonl_writer.h"
#include "metrics/tensorboard_writer.h"

namespace gradmill {

std::unique_ptr<SinkList> open_run_metrics(const std::filesystem::path& folder, const RunMetricsOptions& options,
                                           SinkList::Warn warn) {
  auto sinks = std::make_unique<SinkList>(std::move(warn));
  const int64_t step = options.resume_step;
  if (options.jsonl) sinks->add(std::make_unique<JsonlWriter>(folder / "metrics.jsonl", step));
  if (options.csv) sinks->add(std::make_unique<CsvWriter>(folder / "metrics.csv", step, options.eval_values));
  if (options.tensorboard) sinks->add(std::make_unique<TensorboardWriter>(folder, step));
  if (options.trainer_state) {
    sinks->add(std::make_unique<TrainerStateWriter>(folder / "trainer_state.json", step, options.state));
  }
  return sinks;
}

}  // namespace gradmill
