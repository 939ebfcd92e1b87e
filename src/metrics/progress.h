// SPDX-License-Identifier: Apache-2.0
// Progress: what a user sees of a run. On a terminal, one line that is redrawn in place; otherwise plain lines.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "metrics/clock.h"
#include "metrics/record.h"
#include "metrics/terminal.h"

namespace gradmill {

// An optimisation or setting that a run uses, or that it could not use.
struct Feature {
  std::string name;
  bool active = false;
  std::string detail_or_reason;
};

// "feature  flash attention         active    tiled, linear in memory\n"
std::string feature_line(const Feature& feature);

struct ProgressOptions {
  int64_t total_steps = 0;   // 0: unknown; there is then no bar and no ETA
  int64_t num_epochs = 0;    // 0: unknown
  int64_t every_steps = 10;  // interval of plain lines
  bool terminal = stdout_is_terminal();
  std::function<int()> width = terminal_width;
  SecondsClock clock = monotonic_seconds;
  std::function<void(std::string_view)> write = write_stdout;
};

// Prints permanent lines for evaluations, epochs, skipped updates and notes, and, without a terminal, for every
// `every_steps`th step. The bar is drawn below them, at most ten times a second, and never wider than the terminal:
// fields that do not fit are omitted, the least important first. The bar is removed on destruction.
class Progress final : public MetricsSink {
 public:
  explicit Progress(ProgressOptions options);
  ~Progress() override;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void features(std::span<const Feature> features);
  void note(std::string_view line);

  void step(const StepMetrics& metrics) override;
  void eval(const EvalMetrics& metrics) override;
  void epoch(const EpochMetrics& metrics) override;
  void checkpoint(int64_t step, const std::string& path) override;
  void rewind(int64_t step) override;
  void finish(const RunSummary& summary) override;

 private:
  // Seconds until the end, at the pace since this process's first step, whose own time (warm-up) is not counted.
  double eta() const;
  std::string step_line(const StepMetrics& metrics) const;
  std::string bar_line(const StepMetrics& metrics) const;
  std::string counter(int64_t step) const;
  void print(std::string_view line);
  void draw();

  ProgressOptions options_;
  std::optional<StepMetrics> last_;
  int64_t first_step_ = 0;
  double first_time_ = 0, last_time_ = 0;
  double last_draw_ = 0;
  bool drawn_ = false;
};

}  // namespace gradmill
