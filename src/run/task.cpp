// SPDX-License-Identifier: Apache-2.0
#include "run/task.h"

#include <fmt/format.h>

#include "core/error.h"
#include "models/transformer_spec.h"

namespace gradmill {
namespace {

struct Traits {
  HeadKind head;
  TargetLayout targets;
  const char* default_metric;
  const char* peft_type;
  const char* problem_type;
  std::vector<std::string> scores;
};

const Traits& traits(TaskKind kind) {
  static const Traits kText{HeadKind::causal_lm, TargetLayout::next_tokens, "loss", "CAUSAL_LM", "", {}};
  static const Traits kMask{HeadKind::masked_lm, TargetLayout::hidden_tokens, "loss", "", "", {}};
  static const Traits kClassify{HeadKind::classifier,
                                TargetLayout::classes,
                                "accuracy",
                                "SEQ_CLS",
                                "single_label_classification",
                                {"accuracy", "f1", "macro_f1", "micro_f1", "mcc", "auroc"}};
  static const Traits kRegress{HeadKind::classifier, TargetLayout::numbers,
                               "spearman",           "SEQ_CLS",
                               "regression",         {"mse", "mae", "pearson", "spearman"}};
  switch (kind) {
    case TaskKind::mask:
      return kMask;
    case TaskKind::classify:
      return kClassify;
    case TaskKind::regress:
      return kRegress;
    default:
      return kText;
  }
}

}  // namespace

HeadKind Task::head() const { return traits(kind).head; }
TargetLayout Task::targets() const { return traits(kind).targets; }
const std::vector<std::string>& Task::score_names() const { return traits(kind).scores; }
std::string Task::default_metric() const { return traits(kind).default_metric; }
std::string Task::peft_type() const { return traits(kind).peft_type; }
std::string Task::problem_type() const { return traits(kind).problem_type; }

bool Task::may_have_new_head() const { return head() != HeadKind::causal_lm; }

std::vector<std::string> Task::output_names() const {
  if (!predicts_classes()) return {"LABEL_0"};
  return {labels.names().begin(), labels.names().end()};
}

Task task_without_data(const RunConfig& config) {
  const TaskKind kind = config.data.kind();
  return {.kind = kind, .labels = kind == TaskKind::classify ? LabelMap({"no", "yes"}) : LabelMap()};
}

Task task_by_name(const std::string& name, std::vector<std::string> labels) {
  if (name.empty()) return {};
  const std::optional<TaskKind> kind = find_task_kind(name);
  if (!kind) throw data_error(fmt::format("unknown task '{}'", name), "use the version that wrote the file");
  return {.kind = *kind, .labels = LabelMap(std::move(labels))};
}

Task task_of_labels(std::vector<std::string> labels) {
  if (labels.size() == 1) return {.kind = TaskKind::regress};
  return {.kind = TaskKind::classify, .labels = LabelMap(std::move(labels))};
}

std::string metric_name(const RunConfig& config) {
  return config.eval.metric == "auto" ? Task{.kind = config.data.kind()}.default_metric() : config.eval.metric;
}

}  // namespace gradmill
