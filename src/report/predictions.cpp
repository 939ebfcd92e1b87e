// SPDX-License-Identifier: Apache-2.0
#include "report/predictions.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/labelled/read_labelled.h"
#include "run/class_settings.h"
#include "run/labelled_data.h"

namespace gradmill {
namespace {

using nlohmann::ordered_json;

// The fewest digits that read back to the same bits.
std::string number(float value) { return fmt::format("{}", value); }

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string class_json(const LabelMap& labels, std::span<const float> probabilities, int32_t decision) {
  const auto text = [](const std::string& name) {
    return ordered_json(name).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  };
  std::string all;
  for (int32_t k = 0; k < labels.size(); ++k) {
    all += fmt::format("{}{}: {}", k == 0 ? "" : ", ", text(labels.name(k)),
                       number(probabilities[static_cast<size_t>(k)]));
  }
  return fmt::format("{{\"label\": {}, \"probability\": {}, \"probabilities\": {{{}}}}}\n", text(labels.name(decision)),
                     number(probabilities[static_cast<size_t>(decision)]), all);
}

std::string class_csv(const LabelMap& labels, std::span<const float> probabilities, int32_t decision) {
  std::string line = csv_cell(labels.name(decision));
  for (const float probability : probabilities) line += "," + number(probability);
  return line + "\n";
}

}  // namespace

std::string prediction_lines(const TaskAnswers& answers, const Task& task, std::optional<double> threshold,
                             PredictionFormat format) {
  const bool csv = format == PredictionFormat::csv;
  std::string text;
  if (task.predicts_numbers()) {
    if (csv) text = "value\n";
    for (const float value : answers.logits) {
      text += csv ? number(value) + "\n" : fmt::format("{{\"value\": {}}}\n", number(value));
    }
    return text;
  }
  if (csv) {
    text = "label";
    for (const std::string& name : task.labels.names()) text += "," + csv_cell(name);
    text += "\n";
  }
  const std::vector<float> probabilities = answers.probabilities();
  const std::vector<int32_t> decisions = decide(probabilities, answers.num_outputs, threshold);
  const auto outputs = static_cast<size_t>(answers.num_outputs);
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto row = std::span(probabilities).subspan(i * outputs, outputs);
    text += csv ? class_csv(task.labels, row, decisions[i]) : class_json(task.labels, row, decisions[i]);
  }
  return text;
}

LabelledSet read_unlabelled(const std::string& paths, const RunConfig& config) {
  LabelledOptions options = labelled_options(config.data);
  options.require_labels = false;
  options.columns.label.clear();
  options.columns.group.clear();
  // A label column is ignored, whatever it holds.
  options.label_kind = LabelKind::words;
  options.bad_records = BadRecordPolicy::error;  // every record must get a line
  return read_labelled(list_sources(split_paths(paths)), options);
}

LabelledSet read_for_evaluation(const std::string& paths, const RunConfig& config, const Task& task) {
  LabelledOptions options = labelled_options(config.data);
  options.columns.group.clear();
  if (task.predicts_classes()) options.labels = task.labels;
  return read_labelled(list_sources(split_paths(paths)), options);
}

std::string describe_scores(const TaskScores& scores, const Task& task) {
  std::string text = fmt::format("loss {:.6f}\n", scores.loss);
  if (!scores.report) {
    for (const auto& [name, value] : scores.values) text += fmt::format("{} {:.6f}\n", name, value);
    return text;
  }
  text += "\n" + describe(*scores.report, task.labels.names());
  const double area = scores.value("auroc");
  if (std::isfinite(area)) text += fmt::format("AUROC {:.4f}{}\n", area, task.num_outputs() > 2 ? " (macro)" : "");
  return text + "\n" + describe(*scores.confusion, task.labels.names());
}

std::string scores_json(const TaskScores& scores, int64_t step, int64_t examples) {
  std::string text = fmt::format("{{\"step\": {}, \"loss\": {:.6f}", step, scores.loss);
  for (const auto& [name, value] : scores.values) {
    text += fmt::format(", \"{}\": {}", name, std::isfinite(value) ? fmt::format("{:.6f}", value) : "null");
  }
  return text + fmt::format(", \"examples\": {}}}\n", examples);
}

}  // namespace gradmill
