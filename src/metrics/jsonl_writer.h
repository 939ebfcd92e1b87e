// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl: one JSON object a line.
//   {"kind":"train","step":1,"epoch":…,"loss":…,…,"finite":true}
//   {"kind":"eval","step":…,"epoch":…,"loss":…,"perplexity":…,"seconds":…,"best":…,"finite":true}
//     (of a task with labels "accuracy", "mcc", … in place of the perplexity)
//   {"kind":"text","step":…,"tag":"sample","text":"…"}
// Every line of a kind has the same keys. A number that is unknown or not finite is null, and "finite" is false when
// the loss or gradient was not.
#pragma once

#include "metrics/append_file.h"
#include "metrics/record.h"

namespace gradmill {

class JsonlWriter final : public MetricsSink {
 public:
  JsonlWriter(const std::filesystem::path& path, int64_t resume_step, SecondsClock clock = monotonic_seconds);

  void step(const StepMetrics& metrics) override;
  void eval(const EvalMetrics& metrics) override;
  void text(int64_t step, std::string_view tag, std::string_view markdown) override;
  void rewind(int64_t step) override;
  void flush() override { file_.flush(); }

 private:
  AppendFile file_;
};

}  // namespace gradmill
