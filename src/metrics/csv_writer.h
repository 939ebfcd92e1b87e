// SPDX-License-Identifier: Apache-2.0
// metrics.csv: one table for spreadsheets. Each row is a training step or an evaluation; columns of the other kind are
// empty, and so are numbers that are unknown or not finite. The last columns are metrics of the task: eval_accuracy,
// eval_mcc.
#pragma once

#include "metrics/append_file.h"
#include "metrics/record.h"

namespace gradmill {

class CsvWriter final : public MetricsSink {
 public:
  // `values` are the names in EvalMetrics::values. Throws a data_error if an existing file has other columns. An
  // existing file without the task's columns is continued without them.
  CsvWriter(const std::filesystem::path& path, int64_t resume_step, std::vector<std::string> values = {},
            SecondsClock clock = monotonic_seconds);

  void step(const StepMetrics& metrics) override;
  void eval(const EvalMetrics& metrics) override;
  void rewind(int64_t step) override;
  void flush() override { file_.flush(); }

 private:
  std::string header() const;

  std::vector<std::string> values_;
  AppendFile file_;
};

}  // namespace gradmill
