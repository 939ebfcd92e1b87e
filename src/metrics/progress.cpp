// SPDX-License-Identifier: Apache-2.0
#include "metrics/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <utility>
#include <vector>

#include "metrics/format.h"

namespace gradmill {
namespace {

constexpr double kDrawInterval = 0.1;
constexpr std::string_view kClearLine = "\r\x1b[K";

// One part of the line. If the line is too long, fields with a high rank are dropped first.
struct Field {
  int rank;
  std::string text;
};

void add(std::vector<Field>& fields, int rank, double value, std::string text) {
  if (std::isfinite(value)) fields.push_back({rank, std::move(text)});
}

double known_memory(size_t bytes) { return bytes == 0 ? kUnknown : double(bytes); }

// The fields in the order of the line. All text is ASCII, so one byte is one column.
std::vector<Field> bar_fields(const StepMetrics& metrics, const std::string& counter, int64_t num_epochs, double eta) {
  std::vector<Field> fields = {{0, counter}};
  const std::string of_epochs = num_epochs > 0 ? fmt::format("/{}", num_epochs) : "";
  add(fields, 5, metrics.epoch, fmt::format("epoch {:.2f}{}", metrics.epoch, of_epochs));
  fields.push_back({1, "loss " + format_loss(metrics.loss)});
  add(fields, 4, metrics.lr, fmt::format("lr {:.2e}", metrics.lr));
  fields.push_back({6, "grad norm " + format_loss(metrics.grad_norm)});
  add(fields, 3, metrics.tokens_per_s, format_count(metrics.tokens_per_s) + " tok/s");
  add(fields, 9, metrics.samples_per_s, format_count(metrics.samples_per_s) + " samples/s");
  add(fields, 7, metrics.mfu, "MFU " + format_percent(metrics.mfu));
  const double memory = known_memory(metrics.memory_bytes);
  add(fields, 8, memory, "mem " + format_bytes(memory));
  add(fields, 10, metrics.gpu.utilisation, fmt::format("GPU {:.0f}%", metrics.gpu.utilisation * 100));
  add(fields, 11, metrics.gpu.watts, fmt::format("{:.0f} W", metrics.gpu.watts));
  add(fields, 12, metrics.gpu.celsius, fmt::format("{:.0f} C", metrics.gpu.celsius));
  add(fields, 2, eta, "ETA " + format_duration(eta));
  return fields;
}

// Joins the fields that fit `width`, by rank. The first field is always kept.
std::string join_fitting(const std::vector<Field>& fields, size_t width) {
  constexpr std::string_view kGap = "  ";
  std::vector<size_t> by_rank(fields.size());
  for (size_t i = 0; i < fields.size(); ++i) by_rank[i] = i;
  std::sort(by_rank.begin(), by_rank.end(), [&](size_t a, size_t b) { return fields[a].rank < fields[b].rank; });
  std::vector<bool> chosen(fields.size());
  size_t used = 0;
  for (size_t index : by_rank) {
    const size_t size = fields[index].text.size() + (used == 0 ? 0 : kGap.size());
    if (used > 0 && used + size > width) break;
    chosen[index] = true;
    used += size;
  }
  std::string line;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!chosen[i]) continue;
    if (!line.empty()) line += kGap;
    line += fields[i].text;
  }
  return line.substr(0, width);
}

// "[=====>    ] ", as wide as the available space, or nothing.
std::string bar(double share, size_t room) {
  constexpr size_t kSmallest = 10, kLargest = 40, kFrame = 3;
  if (room < kSmallest + kFrame) return {};
  const size_t size = std::min(room - kFrame, kLargest);
  const auto full = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * double(size));
  std::string cells(full, '=');
  if (full < size) cells += '>';
  cells.resize(size, ' ');
  return "[" + cells + "] ";
}

}  // namespace

std::string feature_line(const Feature& feature) {
  return fmt::format("feature  {:<22} {:<9} {}\n", feature.name, feature.active ? "active" : "inactive",
                     feature.detail_or_reason);
}

Progress::Progress(ProgressOptions options) : options_(std::move(options)) { assert(options_.every_steps > 0); }

Progress::~Progress() {
  if (drawn_) options_.write(kClearLine);
}

void Progress::print(std::string_view line) {
  std::string out(drawn_ ? kClearLine : "");
  out += line;
  if (drawn_ && last_) out += bar_line(*last_);
  options_.write(out);
}

void Progress::note(std::string_view line) { print(fmt::format("{}\n", line)); }

void Progress::features(std::span<const Feature> features) {
  std::string lines;
  for (const Feature& feature : features) lines += feature_line(feature);
  print(lines);
}

std::string Progress::counter(int64_t step) const {
  if (options_.total_steps == 0) return fmt::format("step {}", step);
  return fmt::format("step {:>{}}/{}", step, fmt::formatted_size("{}", options_.total_steps), options_.total_steps);
}

double Progress::eta() const {
  if (!last_ || last_->step >= options_.total_steps || last_->step <= first_step_) return kUnknown;
  const double pace = (last_time_ - first_time_) / double(last_->step - first_step_);
  return pace * double(options_.total_steps - last_->step);
}

std::string Progress::step_line(const StepMetrics& metrics) const {
  const std::vector<Field> fields = bar_fields(metrics, counter(metrics.step), options_.num_epochs, eta());
  return join_fitting(fields, std::string::npos) + "\n";
}

std::string Progress::bar_line(const StepMetrics& metrics) const {
  // The last column stays empty, because terminals wrap the line when it is written.
  const auto width = static_cast<size_t>(std::max(options_.width() - 1, 1));
  std::string line = join_fitting(bar_fields(metrics, counter(metrics.step), options_.num_epochs, eta()), width);
  if (options_.total_steps == 0) return line;
  return bar(double(metrics.step) / double(options_.total_steps), width - line.size()) + line;
}

void Progress::draw() {
  options_.write(std::string(kClearLine) + bar_line(*last_));
  drawn_ = true;
  last_draw_ = last_time_;
}

void Progress::step(const StepMetrics& metrics) {
  last_time_ = options_.clock();
  if (!last_) {
    first_step_ = metrics.step;
    first_time_ = last_time_;
  }
  last_ = metrics;
  if (!metrics.finite) note(fmt::format("{}  not finite: the update was skipped", counter(metrics.step)));
  if (options_.terminal) {
    if (!drawn_ || last_time_ - last_draw_ >= kDrawInterval) draw();
  } else if (metrics.step % options_.every_steps == 0 || metrics.step == options_.total_steps) {
    print(step_line(metrics));
  }
}

void Progress::eval(const EvalMetrics& metrics) {
  std::string more;
  if (metrics.values.empty()) more = "  perplexity " + format_loss(metrics.perplexity);
  for (const auto& [name, value] : metrics.values) more += fmt::format("  {} {}", name, format_loss(value));
  note(fmt::format("{}  validation loss {}{}  ({}){}", counter(metrics.step), format_loss(metrics.loss), more,
                   format_duration(metrics.seconds), metrics.best ? "  best so far" : ""));
}

void Progress::epoch(const EpochMetrics& metrics) {
  note(fmt::format("Epoch [{}/{}] Average Train Loss: {} Epoch time: {} Throughput: {} samples/s", metrics.epoch,
                   metrics.num_epochs, format_loss(metrics.train_loss), format_duration(metrics.seconds),
                   format_count(metrics.samples_per_s)));
}

void Progress::checkpoint(int64_t step, const std::string& path) {
  note(fmt::format("{}  checkpoint saved: {}", counter(step), path));
}

void Progress::rewind(int64_t step) {
  last_.reset();  // the pace is measured anew
  note(fmt::format("{}  went back to this step", counter(step)));
}

void Progress::finish(const RunSummary& summary) {
  constexpr std::array<std::string_view, 4> kHow{"finished", "interrupted", "failed", "pruned"};
  std::string out;
  if (drawn_ && last_) out += std::string(kClearLine) + step_line(*last_);  // the last state stays visible
  drawn_ = false;
  for (const std::string& line : summary.remarks) out += line + "\n";
  out += fmt::format("{} after step {} in {}", kHow[static_cast<size_t>(summary.status)], summary.step,
                     format_duration(summary.seconds));
  if (std::isfinite(summary.best_eval_loss)) {
    const bool by_loss = summary.best_metric.empty();
    out += fmt::format("; best validation {} {} at step {}", by_loss ? "loss" : summary.best_metric,
                       format_loss(by_loss ? summary.best_eval_loss : summary.best_value), summary.best_step);
  }
  options_.write(out + "\n");
}

}  // namespace gradmill
