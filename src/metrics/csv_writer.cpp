// SPDX-License-Identifier: Apache-2.0
#include "metrics/csv_writer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "metrics/step_fields.h"

namespace gradmill {
namespace {

// Columns came to their places over time, and files of older runs are continued: what only a GPU has comes last.
bool comes_last(const StepField& field) {
  return field.kind == StepField::Kind::number_if_known || field.kind == StepField::Kind::bytes_if_known;
}

// Calls visit(field, value) for a step's columns: those before what an evaluation has, or those after it.
template <class Visit>
void visit_columns(const StepMetrics& metrics, bool last, Visit&& visit) {
  visit_step_fields(metrics, [&](const StepField& field, const auto& value) {
    if (comes_last(field) == last) visit(field, value);
  });
}

std::string column_names(bool last) {
  std::string names;
  visit_columns({}, last, [&](const StepField& field, const auto&) {
    names += fmt::format(",{}", field.csv != nullptr ? field.csv : field.name);
  });
  return names;
}

const std::string& common_header() {
  static const std::string kHeader =
      "step" + column_names(false) + ",finite,eval_loss,eval_perplexity,eval_seconds,best" + column_names(true);
  return kHeader;
}

// The number, or an empty cell if it is not finite.
std::string cell(double value) { return std::isfinite(value) ? fmt::format("{}", value) : std::string(); }

std::string cells(const StepMetrics& metrics, bool last) {
  std::string text;
  visit_columns(metrics, last, [&](const StepField& field, const auto& value) {
    const bool known = std::isfinite(known_number(field, value));
    text += known ? fmt::format(",{}", value) : std::string(",");
  });
  return text;
}

// The same columns of a line that has none of them.
std::string no_cells(bool last) {
  const std::string names = column_names(last);
  return std::string(static_cast<size_t>(std::count(names.begin(), names.end(), ',')), ',');
}

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
  std::string line = common_header();
  for (const std::string& name : values_) line += ",eval_" + name;
  return line;
}

void CsvWriter::step(const StepMetrics& metrics) {
  file_.append(fmt::format("{}{},{},,,,{}{}\n", metrics.step, cells(metrics, false), is_finite(metrics),
                           cells(metrics, true), std::string(values_.size(), ',')));
}

void CsvWriter::eval(const EvalMetrics& metrics) {
  std::string values;
  for (const std::string& name : values_) values += "," + cell(value_of(metrics, name));
  // Of a step's numbers an evaluation has the epoch, which is the first.
  file_.append(fmt::format("{},{}{},{},{},{},{},{}{}{}\n", metrics.step, cell(metrics.epoch), no_cells(false).substr(1),
                           std::isfinite(metrics.loss), cell(metrics.loss), cell(metrics.perplexity),
                           cell(metrics.seconds), metrics.best, no_cells(true), values));
}

void CsvWriter::rewind(int64_t step) {
  bool is_header = true;
  file_.cut_lines([&](std::string_view line) {
    if (step == kFreshRun) return false;
    if (!std::exchange(is_header, false)) return is_kept(line, header(), step);
    if (line == common_header()) values_.clear();
    if (line == header()) return true;
    throw data_error(fmt::format("'{}' was written with other columns than this version writes", file_.path().string()),
                     "move it out of the run's folder and resume");
  });
  if (file_.is_empty()) file_.append(header() + "\n");
}

}  // namespace gradmill
