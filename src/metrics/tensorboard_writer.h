// SPDX-License-Identifier: Apache-2.0
// Events for TensorBoard: scalars under Hugging Face's names (train/loss, train/learning_rate, train/grad_norm,
// train/epoch, train/tokens_per_s, eval/loss, eval/perplexity), texts and hyper-parameters.
#pragma once

#include "metrics/append_file.h"
#include "metrics/record.h"

namespace gradmill {

namespace tfevents {
class Message;
}

// Each writer starts a new file. Readers merge the files of a folder in the order of their names. A file first tells
// readers to drop what earlier files contain after `resume_step`.
class TensorboardWriter final : public MetricsSink {
 public:
  TensorboardWriter(const std::filesystem::path& folder, int64_t resume_step, SecondsClock wall_clock = unix_seconds,
                    SecondsClock clock = monotonic_seconds);

  void hparams(const Hparams& values) override;
  // A loss or norm that is not finite is recorded as it is, and TensorBoard marks it. Other unknown numbers are
  // omitted.
  void step(const StepMetrics& metrics) override;
  void eval(const EvalMetrics& metrics) override;
  void text(int64_t step, std::string_view tag, std::string_view markdown) override;
  void rewind(int64_t step) override;
  // Ends the session on the HParams page, unless the run was interrupted and may be resumed.
  void finish(const RunSummary& summary) override;
  void flush() override { file_.flush(); }

  const std::filesystem::path& path() const { return file_.path(); }

 private:
  void write(const tfevents::Message& event);

  SecondsClock wall_clock_;
  AppendFile file_;
};

}  // namespace gradmill
