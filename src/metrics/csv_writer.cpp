// SPDX-License-Identifier: Apache-2.0
#include "metrics/csv_writer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/error.h"

namespace gradmill {
namespace {

constexpr std::string_view kHeader =
    "step,epoch,loss,learning_rate,grad_norm,tokens_per_s,samples_per_s,mfu,tokens_seen,step_ms,memory_bytes,"
    "loader_stall,finite,eval_loss,eval_perplexity,eval_seconds,best,gpu_utilisation,gpu_watts,gpu_celsius,"
    "gpu_memory_bytes";

// A number, or nothing.
std::string cell(double value) { return std::isfinite(value) ? fmt::format("{}", value) : std::string(); }
std::string cell(size_t bytes) { return bytes == 0 ? std::string() : fmt::to_string(bytes); }

int64_t num_commas(std::string_view line) { return std::count(line.begin(), line.end(), ','); }

bool is_kept(std::string_view line, std::string_view header, int64_t last_step) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
  return error == std::errc() && num_commas(line) == num_commas(header) && step <= last_step;
}

double value_of(const EvalMetrics& metrics, const std::string& name) {
  const auto found = std::ranges::find(metrics.values, name, &std::pair<std::string, double>::first);
  return found == metrics.values.end() ? kUnknown : found->second;
}

}  // namespace

CsvWriter::CsvWriter(const std::filesystem::path& path, int64_t resume_step, std::vector<std::string> values,
                     SecondsClock clock)
    : values_(std::move(values)), file_(path, std::move(clock)) {
  rewind(resume_step);
}

std::string CsvWriter::header() const {
  std::string line(kHeader);
  for (const std::string& name : values_) line += ",eval_" + name;
  return line;
}

void CsvWriter::step(const StepMetrics& metrics) {
  const bool finite = metrics.finite && std::isfinite(metrics.loss) && std::isfinite(metrics.grad_norm);
  const GpuMetrics& gpu = metrics.gpu;
  file_.append(fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},,,,,{},{},{},{}{}\n", metrics.step,
                           cell(metrics.epoch), cell(metrics.loss), cell(metrics.lr), cell(metrics.grad_norm),
                           cell(metrics.tokens_per_s), cell(metrics.samples_per_s), cell(metrics.mfu),
                           metrics.tokens_seen, cell(metrics.step_ms), cell(metrics.memory_bytes),
                           cell(metrics.loader_stall), finite, cell(gpu.utilisation), cell(gpu.watts),
                           cell(gpu.celsius), cell(gpu.memory_bytes), std::string(values_.size(), ',')));
}

void CsvWriter::eval(const EvalMetrics& metrics) {
  std::string values;
  for (const std::string& name : values_) values += "," + cell(value_of(metrics, name));
  file_.append(fmt::format("{},{},,,,,,,,,,,{},{},{},{},{},,,,{}\n", metrics.step, cell(metrics.epoch),
                           std::isfinite(metrics.loss), cell(metrics.loss), cell(metrics.perplexity),
                           cell(metrics.seconds), metrics.best, values));
}

void CsvWriter::rewind(int64_t step) {
  bool is_header = true;
  file_.cut_lines([&](std::string_view line) {
    if (step == kFreshRun) return false;
    if (!std::exchange(is_header, false)) return is_kept(line, header(), step);
    if (line == kHeader) values_.clear();
    if (line == header()) return true;
    throw data_error(fmt::format("'{}' has other columns than this version writes", file_.path().string()),
                     "move it out of the run's folder to go on");
  });
  if (file_.is_empty()) file_.append(header() + "\n");
}

}  // namespace gradmill
