// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl: one JSON object per line.
// {"kind":"train","step":1,"epoch":…,"loss":…,…,"finite":true}
// {"kind":"eval","step":…,"epoch":…,"loss":…,"perplexity":…,"seconds":…,"best":…,"finite":true}
// (tasks with labels have "accuracy", "mcc", … instead of the perplexity)
// {"kind":"text","step":…,"tag":"sample","text":"…"}
// All lines of a kind have the same keys. A number that is unknown or not finite is null. "finite" is false if the loss
// or the gradient was not finite.
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
