// SPDX-License-Identifier: Apache-2.0
// metrics.csv: one table for spreadsheets. A row is a training step or an evaluation; the other's columns are empty, as
// is a number that is unknown or not finite. The last columns are those of the task: eval_accuracy, eval_mcc.
#pragma once

#include "metrics/append_file.h"
#include "metrics/record.h"

namespace gradmill {

class CsvWriter final : public MetricsSink {
 public:
  // `values` are the names of EvalMetrics::values. Throws a data_error when it would go on in a file with other
  // columns; in one that was begun without those of the task it goes on without them.
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
