// SPDX-License-Identifier: Apache-2.0
// metrics.csv: one table for spreadsheets. A row is a training step or an evaluation; the other's columns are empty, as
// is a number that is unknown or not finite.
#pragma once

#include "metrics/append_file.h"
#include "metrics/record.h"

namespace gradmill {

class CsvWriter final : public MetricsSink {
 public:
  // Throws a data_error when it would go on in a file with other columns.
  CsvWriter(const std::filesystem::path& path, int64_t resume_step, SecondsClock clock = monotonic_seconds);

  void step(const StepMetrics& metrics) override;
  void eval(const EvalMetrics& metrics) override;
  void rewind(int64_t step) override;
  void flush() override { file_.flush(); }

 private:
  AppendFile file_;
};

}  // namespace gradmill
