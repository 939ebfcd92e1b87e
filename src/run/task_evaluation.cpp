// SPDX-License-Identifier: Apache-2.0
#include "run/task_evaluation.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include "core/error.h"
#include "metrics/record.h"
#include "metrics/scores/roc.h"

namespace gradmill {
namespace {

// For more classes the mean of all areas would need much sorting for a number of little use.
constexpr int64_t kMostAreas = 256;

double cross_entropy(std::span<const float> logits, int32_t truth) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double(logit) - largest);
  return std::log(sum) + largest - double(logits[static_cast<size_t>(truth)]);
}

double mean_class_loss(const TaskAnswers& answers, std::span<const float> class_weights) {
  double sum = 0, total = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    const int32_t truth = answers.classes[i];
    const double weight = class_weights.empty() ? 1.0 : double(class_weights[static_cast<size_t>(truth)]);
    sum += weight * cross_entropy(answers.logits_of(i), truth);
    total += weight;
  }
  return total > 0 ? sum / total : kUnknown;
}

std::vector<uint8_t> is_second_class(const std::vector<int32_t>& classes) {
  std::vector<uint8_t> positive;
  for (const int32_t truth : classes) positive.push_back(truth == 1);
  return positive;
}

std::vector<float> second_probabilities(std::span<const float> probabilities) {
  std::vector<float> scores;
  for (size_t i = 1; i < probabilities.size(); i += 2) scores.push_back(probabilities[i]);
  return scores;
}

double area(const TaskAnswers& answers, std::span<const float> probabilities) {
  if (answers.num_outputs == 2) return roc_auc(second_probabilities(probabilities), is_second_class(answers.classes));
  if (answers.num_outputs > kMostAreas) return kUnknown;
  return macro_roc_auc(probabilities, answers.classes, answers.num_outputs);
}

// `values` in the order of Task::score_names.
std::vector<std::pair<std::string, double>> named(const Task& task, std::initializer_list<double> values) {
  std::vector<std::pair<std::string, double>> result;
  auto value = values.begin();
  for (const std::string& name : task.score_names()) result.emplace_back(name, *value++);
  assert(value == values.end());
  return result;
}

TaskScores score_classes(const TaskAnswers& answers, const Task& task, std::span<const float> class_weights,
                         std::optional<double> threshold) {
  const std::vector<float> probabilities = answers.probabilities();
  TaskScores scores{.loss = mean_class_loss(answers, class_weights)};
  scores.confusion.emplace(answers.num_outputs, answers.classes, decide(probabilities, answers.num_outputs, threshold));
  scores.report = class_report(*scores.confusion);
  const ClassReport& report = *scores.report;
  const bool binary = answers.num_outputs == 2;
  scores.values = named(task, {report.accuracy, binary ? report.classes[1].f1 : report.macro.f1, report.macro.f1,
                               report.micro_f1, report.mcc, area(answers, probabilities)});
  return scores;
}

}  // namespace

std::vector<float> TaskAnswers::probabilities() const {
  std::vector<float> result;
  result.reserve(logits.size());
  for (size_t i = 0; i < size(); ++i) {
    const std::span<const float> row = logits_of(i);
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const float logit : row) sum += std::exp(double(logit) - largest);
    for (const float logit : row) result.push_back(static_cast<float>(std::exp(double(logit) - largest) / sum));
  }
  return result;
}

TaskAnswers answer(Session& session, const Task& task, const VisitBatches& batches,
                   const std::function<bool()>& stop_requested) {
  TaskAnswers answers{.num_outputs = task.num_outputs()};
  const bool numbers = task.predicts_numbers();
  batches([&](const MicroBatch& batch) {
    const std::span<const float> logits = session.class_logits(batch);
    answers.logits.insert(answers.logits.end(), logits.begin(), logits.end());
    for (size_t s = 0; s < static_cast<size_t>(batch.num_seqs); ++s) {
      answers.examples.push_back(batch.examples[s]);
      if (numbers) {
        answers.targets.push_back(std::bit_cast<float>(batch.targets[s]));
      } else {
        answers.classes.push_back(batch.targets[s]);
      }
    }
    answers.stopped = stop_requested();
    return !answers.stopped;
  });
  return answers;
}

std::vector<int32_t> decide(std::span<const float> probabilities, int64_t num_classes,
                            std::optional<double> threshold) {
  std::vector<int32_t> decisions;
  for (size_t begin = 0; begin < probabilities.size(); begin += static_cast<size_t>(num_classes)) {
    const auto row = probabilities.subspan(begin, static_cast<size_t>(num_classes));
    const auto likeliest = static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
    decisions.push_back(threshold && num_classes == 2 ? double(row[1]) >= *threshold : likeliest);
  }
  return decisions;
}

double TaskScores::value(const std::string& name) const {
  if (name == "loss") return loss;
  for (const auto& [known, number] : values) {
    if (known == name) return number;
  }
  throw usage_error(fmt::format("the task has no metric '{}'", name), "choose another eval.metric");
}

TaskScores score(const TaskAnswers& answers, const Task& task, std::span<const float> class_weights,
                 std::optional<double> threshold) {
  if (answers.size() == 0) throw data_error("there are no examples to evaluate", "give more validation data");
  if (task.predicts_classes()) return score_classes(answers, task, class_weights, threshold);
  const RegressionScores numbers = regression_scores(answers.logits, answers.targets);
  return {.loss = numbers.mse,
          .values = named(task, {numbers.mse, numbers.mae, numbers.pearson, numbers.spearman}),
          .report = {},
          .confusion = {}};
}

Threshold tune_threshold(const TaskAnswers& answers, ThresholdGoal goal) {
  if (answers.num_outputs != 2) {
    throw usage_error(fmt::format("a threshold needs two classes, but there are {}", answers.num_outputs),
                      "use eval.threshold=none, which predicts the likeliest class");
  }
  return best_threshold(second_probabilities(answers.probabilities()), is_second_class(answers.classes), goal);
}

}  // namespace gradmill
