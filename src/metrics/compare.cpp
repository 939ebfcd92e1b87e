// SPDX-License-Identifier: Apache-2.0
#include "metrics/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "metrics/format.h"
#include "metrics/text_plot.h"

namespace gradmill {
namespace {

using Row = std::array<std::string, 4>;  // name, A, B, and sometimes the difference

std::string table(const std::vector<Row>& rows) {
  std::array<size_t, 3> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line =
        fmt::format("  {:<{}}  {:<{}}  {:<{}}  {}", row[0], widths[0], row[1], widths[1], row[2], widths[2], row[3]);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string config_differences(const ComparedRun& a, const ComparedRun& b) {
  std::set<std::string> keys;
  for (const auto* run : {&a, &b}) {
    for (const auto& [key, value] : run->config) keys.insert(key);
  }
  const auto value_of = [](const ComparedRun& run, const std::string& key) {
    const auto found = run.config.find(key);
    return found == run.config.end() ? std::string("(not set)") : found->second;
  };
  std::vector<Row> rows = {{"setting", "A", "B", ""}};
  for (const std::string& key : keys) {
    const std::string in_a = value_of(a, key), in_b = value_of(b, key);
    if (in_a != in_b) rows.push_back({key, in_a, in_b, ""});
  }
  const std::string title = fmt::format("config: {} of {} settings differ\n", rows.size() - 1, keys.size());
  return rows.size() == 1 ? title : title + table(rows);
}

// The results of a run. Losses that are not finite are ignored for the last and the best loss.
struct Outcome {
  double steps = 0, train_loss = kUnknown, eval_loss = kUnknown, perplexity = kUnknown;
  double best_loss = kUnknown, best_step = kUnknown;
  double tokens_seen = kUnknown, tokens_per_s = kUnknown, step_ms = kUnknown, memory = kUnknown;
  double not_finite = 0;
};

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return kUnknown;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Outcome outcome_of(const RunRecord& record) {
  Outcome out;
  std::vector<double> rates, times;
  for (const StepMetrics& step : record.steps) {
    out.steps = double(step.step);
    if (std::isfinite(step.loss)) out.train_loss = step.loss;
    if (!step.finite) out.not_finite += 1;
    out.tokens_seen = double(step.tokens_seen);
    if (step.memory_bytes > 0) out.memory = std::fmax(out.memory, double(step.memory_bytes));
    rates.push_back(step.tokens_per_s);
    times.push_back(step.step_ms);
  }
  for (const EvalMetrics& eval : record.evals) {
    if (!std::isfinite(eval.loss)) continue;
    out.eval_loss = eval.loss;
    out.perplexity = eval.perplexity;
    if (out.best_loss <= eval.loss) continue;  // false if there is no best loss yet
    out.best_loss = eval.loss;
    out.best_step = double(eval.step);
  }
  out.tokens_per_s = median(std::move(rates));
  out.step_ms = median(std::move(times));
  return out;
}

std::string plain(double value) { return std::isfinite(value) ? fmt::format("{:.0f}", value) : "-"; }
std::string loss(double value) { return std::isfinite(value) ? format_loss(value) : "-"; }
std::string milliseconds(double value) { return std::isfinite(value) ? fmt::format("{:.2f} ms", value) : "-"; }

std::string difference(double a, double b) {
  return std::isfinite(a) && std::isfinite(b) ? fmt::format("{:+.4f}", b - a) : "";
}
std::string ratio(double a, double b) {
  return std::isfinite(a) && std::isfinite(b) && a > 0 ? fmt::format("{:+.1f}%", (b / a - 1) * 100) : "";
}

std::string metrics_table(const RunRecord& run_a, const RunRecord& run_b) {
  const Outcome a = outcome_of(run_a), b = outcome_of(run_b);
  const auto row = [&](std::string what, double Outcome::*field, auto show, auto change) -> Row {
    return {std::move(what), show(a.*field), show(b.*field), change(a.*field, b.*field)};
  };
  const auto nothing = [](double, double) { return std::string(); };
  return "metrics\n" + table({
                           {"", "A", "B", "B against A"},
                           row("steps", &Outcome::steps, plain, nothing),
                           row("train loss, last", &Outcome::train_loss, loss, difference),
                           row("validation loss, last", &Outcome::eval_loss, loss, difference),
                           row("validation loss, best", &Outcome::best_loss, loss, difference),
                           row("  at step", &Outcome::best_step, plain, nothing),
                           row("perplexity, last", &Outcome::perplexity, loss, difference),
                           row("tokens seen", &Outcome::tokens_seen, format_count, ratio),
                           row("tokens/s, median", &Outcome::tokens_per_s, format_count, ratio),
                           row("step time, median", &Outcome::step_ms, milliseconds, ratio),
                           row("memory, peak", &Outcome::memory, format_bytes, ratio),
                           row("steps not finite", &Outcome::not_finite, plain, nothing),
                       });
}

template <class Metrics>
std::string loss_plot(std::string_view title, const std::vector<Metrics>& a, const std::vector<Metrics>& b, int width) {
  std::array<PlotCurve, 2> curves = {{{"A", 'o', {}}, {"B", 'x', {}}}};
  for (const Metrics& point : a) curves[0].points.push_back({double(point.step), point.loss});
  for (const Metrics& point : b) curves[1].points.push_back({double(point.step), point.loss});
  constexpr int kHeight = 14;
  const std::string plot = plot_curves(title, curves, width, kHeight);
  return plot.empty() ? plot : "\n" + plot;
}

std::string header(std::string_view letter, const ComparedRun& run) {
  std::string line = fmt::format("{}  {}", letter, run.name);
  if (run.record.unreadable_lines > 0) {
    line += fmt::format("  ({} lines of its metrics.jsonl cannot be read)", run.record.unreadable_lines);
  }
  return line + "\n";
}

}  // namespace

ComparedRun load_compared_run(const std::filesystem::path& folder, std::map<std::string, std::string> config) {
  return {folder.string(), std::move(config), read_metrics(folder / "metrics.jsonl")};
}

std::string compare_runs(const ComparedRun& a, const ComparedRun& b, int width) {
  return header("A", a) + header("B", b) + "\n" + config_differences(a, b) + "\n" + metrics_table(a.record, b.record) +
         loss_plot("train loss by step", a.record.steps, b.record.steps, width) +
         loss_plot("validation loss by step", a.record.evals, b.record.evals, width);
}

}  // namespace gradmill
