// SPDX-License-Identifier: Apache-2.0
#include "metrics/scores/class_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace gradmill {
namespace {

double ratio(double part, double whole) { return whole == 0 ? 0 : part / whole; }

// The correlation of two one-hot assignments (Gorodkin's R_K).
double correlation(const ConfusionMatrix& matrix) {
  double right = 0, products = 0, truths = 0, decisions = 0;
  const auto total = double(matrix.total());
  for (int32_t k = 0; k < matrix.num_classes(); ++k) {
    const auto truth = double(matrix.num_of(k)), decided = double(matrix.num_decided(k));
    right += double(matrix.count(k, k));
    products += truth * decided;
    truths += truth * truth;
    decisions += decided * decided;
  }
  const double scale = std::sqrt((total * total - decisions) * (total * total - truths));
  return ratio(right * total - products, scale);
}

void add(ClassScores& sum, const ClassScores& scores, double weight) {
  sum.precision += weight * scores.precision;
  sum.recall += weight * scores.recall;
  sum.f1 += weight * scores.f1;
  sum.support += scores.support;
}

size_t width_of(std::span<const std::string> names, size_t least) {
  constexpr size_t kMost = 32;
  for (const std::string& name : names) least = std::max(least, name.size());
  return std::min(least, kMost);
}

// Cuts between characters, so that the result is valid UTF-8.
std::string shortened(const std::string& name, size_t most) {
  if (name.size() <= most) return name;
  while (most > 0 && (static_cast<unsigned char>(name[most]) & 0xC0) == 0x80) --most;
  return name.substr(0, most);
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(int64_t num_classes)
    : num_classes_(num_classes), counts_(static_cast<size_t>(num_classes * num_classes), 0) {}

ConfusionMatrix::ConfusionMatrix(int64_t num_classes, std::span<const int32_t> truth,
                                 std::span<const int32_t> decisions)
    : ConfusionMatrix(num_classes) {
  assert(truth.size() == decisions.size());
  for (size_t i = 0; i < truth.size(); ++i) add(truth[i], decisions[i]);
}

size_t ConfusionMatrix::index(int32_t truth, int32_t decision) const {
  assert(truth >= 0 && truth < num_classes_ && decision >= 0 && decision < num_classes_);
  return static_cast<size_t>(truth * num_classes_ + decision);
}

int64_t ConfusionMatrix::total() const { return std::accumulate(counts_.begin(), counts_.end(), int64_t{0}); }

int64_t ConfusionMatrix::num_of(int32_t truth) const {
  int64_t sum = 0;
  for (int32_t k = 0; k < num_classes_; ++k) sum += count(truth, k);
  return sum;
}

int64_t ConfusionMatrix::num_decided(int32_t decision) const {
  int64_t sum = 0;
  for (int32_t k = 0; k < num_classes_; ++k) sum += count(k, decision);
  return sum;
}

ClassReport class_report(const ConfusionMatrix& matrix) {
  ClassReport report;
  const auto total = double(matrix.total());
  double right = 0, occurring = 0;
  for (int32_t k = 0; k < matrix.num_classes(); ++k) {
    const int64_t truth = matrix.num_of(k), decided = matrix.num_decided(k);
    const auto hits = double(matrix.count(k, k));
    report.classes.push_back({.precision = ratio(hits, double(decided)),
                              .recall = ratio(hits, double(truth)),
                              .f1 = ratio(2 * hits, double(truth + decided)),
                              .support = truth});
    right += hits;
    if (truth + decided > 0) ++occurring;
  }
  for (const ClassScores& scores : report.classes) {
    add(report.macro, scores, ratio(1, occurring));
    add(report.weighted, scores, ratio(double(scores.support), total));
  }
  report.accuracy = report.micro_f1 = ratio(right, total);
  report.mcc = correlation(matrix);
  return report;
}

std::string describe(const ClassReport& report, std::span<const std::string> names) {
  const size_t width = width_of(names, std::string_view("weighted mean").size());
  std::string text = fmt::format("{:<{}}  precision   recall       F1  support\n", "", width);
  const auto line = [&](const std::string& name, const ClassScores& scores) {
    text += fmt::format("{:<{}}     {:.4f}   {:.4f}   {:.4f}  {:>7}\n", shortened(name, width), width, scores.precision,
                        scores.recall, scores.f1, scores.support);
  };
  for (size_t k = 0; k < report.classes.size(); ++k) line(names[k], report.classes[k]);
  line("macro mean", report.macro);
  line("weighted mean", report.weighted);
  return text +
         fmt::format("accuracy {:.4f}   micro F1 {:.4f}   MCC {:.4f}\n", report.accuracy, report.micro_f1, report.mcc);
}

std::string describe(const ConfusionMatrix& matrix, std::span<const std::string> names) {
  constexpr int64_t kMostShown = 24;
  if (matrix.num_classes() > kMostShown) {
    return fmt::format("confusion matrix of {} classes: too wide to show\n", matrix.num_classes());
  }
  const size_t width = width_of(names, std::string_view("class \\ decision").size());
  const auto cell = [&](int32_t k) {
    return std::max<size_t>(7, std::min<size_t>(names[static_cast<size_t>(k)].size(), 20));
  };
  std::string text = fmt::format("{:<{}}", "class \\ decision", width);
  const auto classes = static_cast<int32_t>(matrix.num_classes());
  for (int32_t k = 0; k < classes; ++k) {
    text += fmt::format("  {:>{}}", shortened(names[static_cast<size_t>(k)], cell(k)), cell(k));
  }
  text += '\n';
  for (int32_t truth = 0; truth < classes; ++truth) {
    text += fmt::format("{:<{}}", shortened(names[static_cast<size_t>(truth)], width), width);
    for (int32_t k = 0; k < classes; ++k) text += fmt::format("  {:>{}}", matrix.count(truth, k), cell(k));
    text += '\n';
  }
  return text;
}

}  // namespace gradmill
