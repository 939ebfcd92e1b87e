// SPDX-License-Identifier: Apache-2.0
#include "metrics/tensorboard_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "metrics/step_fields.h"
#include "metrics/tfevents.h"

namespace gradmill {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == 0) return "localhost";
  return name.data();
}

// A file name that sorts after every file in the folder, even within one second or after the clock went back.
std::filesystem::path next_path(const std::filesystem::path& folder, double now) {
  auto seconds = static_cast<int64_t>(now);
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    int64_t other = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), other);
    seconds = std::max(seconds, other + 1);
  }
  return folder / fmt::format("{}{:010}.{}", kPrefix, seconds, host_name());
}

void add_if_known(std::vector<tfevents::Message>& values, std::string_view tag, double value) {
  if (std::isfinite(value)) values.push_back(tfevents::scalar_value(tag, value));
}

}  // namespace

TensorboardWriter::TensorboardWriter(const std::filesystem::path& folder, int64_t resume_step, SecondsClock wall_clock,
                                     SecondsClock clock)
    : wall_clock_(std::move(wall_clock)), file_(next_path(folder, wall_clock_()), std::move(clock)) {
  write(tfevents::file_version(wall_clock_()));
  // Also in a fresh run, because some readers take the first start in a folder for the beginning, not for a restart.
  rewind(resume_step);
}

void TensorboardWriter::write(const tfevents::Message& event) { file_.append(tfevents::record(event.data())); }

void TensorboardWriter::rewind(int64_t step) { write(tfevents::session_start(wall_clock_(), step + 1)); }

void TensorboardWriter::hparams(const Hparams& values) {
  const double now = wall_clock_();
  const std::vector<std::string> metrics = {"train/loss", "eval/loss", "eval/perplexity"};
  write(tfevents::summary(now, 0, {tfevents::hparams_experiment_value(values, metrics)}));
  write(tfevents::summary(now, 0, {tfevents::hparams_start_value(values, now)}));
}

void TensorboardWriter::step(const StepMetrics& metrics) {
  std::vector<tfevents::Message> values;
  visit_step_fields(metrics, [&](const StepField& field, const auto& value) {
    if (field.tensorboard == nullptr) return;
    const double number = known_number(field, value);
    if (field.always || std::isfinite(number)) values.push_back(tfevents::scalar_value(field.tensorboard, number));
  });
  write(tfevents::summary(wall_clock_(), metrics.step, values));
}

void TensorboardWriter::eval(const EvalMetrics& metrics) {
  std::vector<tfevents::Message> values = {tfevents::scalar_value("eval/loss", metrics.loss)};
  add_if_known(values, "eval/perplexity", metrics.perplexity);
  for (const auto& [name, value] : metrics.values) add_if_known(values, "eval/" + name, value);
  write(tfevents::summary(wall_clock_(), metrics.step, values));
}

void TensorboardWriter::text(int64_t step, std::string_view tag, std::string_view markdown) {
  write(tfevents::summary(wall_clock_(), step, {tfevents::text_value(tag, markdown)}));
}

void TensorboardWriter::finish(const RunSummary& summary) {
  if (summary.status == RunStatus::interrupted) return;
  const double now = wall_clock_();
  // At step 0, so that a run that is extended and resumed keeps it.
  write(tfevents::summary(now, 0, {tfevents::hparams_end_value(summary.status, now)}));
}

}  // namespace gradmill
