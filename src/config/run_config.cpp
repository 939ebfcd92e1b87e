// SPDX-License-Identifier: Apache-2.0
#include "config/run_config.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <utility>

#include "core/gpu_catalogue.h"

namespace gradmill {

std::vector<std::string> MachineConfig::device_names() {
  std::vector<std::string> names = {"auto", "cpu", "cuda"};
  for (const DeviceSpec& gpu : gpu_catalogue()) names.push_back(gpu.name);
  return names;
}

namespace {

using Require = std::function<void(bool good, std::vector<std::string> keys, std::string rule)>;

using Changes = std::initializer_list<std::pair<const char*, bool>>;

bool is_one_of(const std::string& name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_metric(const RunConfig& config, const Require& require) {
  const TaskKind task = config.data.kind();
  const std::string& metric = config.eval.metric;
  const bool fits = is_one_of(metric, {"auto", "loss"}) ||
                    (task == TaskKind::classify && is_one_of(metric, {"accuracy", "f1", "macro_f1", "mcc", "auroc"})) ||
                    (task == TaskKind::regress && is_one_of(metric, {"pearson", "spearman", "mse"}));
  require(
      fits, {"eval.metric", "data.task"},
      "text has the loss, classify also accuracy, f1, macro_f1, mcc and auroc, regress also pearson, spearman and mse");
  require(task == TaskKind::classify || config.eval.threshold == "none", {"eval.threshold", "data.task"},
          "only data.task=classify with two classes has a threshold");
}

void check_labelled(const RunConfig& config, const Require& require) {
  const DataConfig &data = config.data, defaults;
  const bool labelled = is_labelled(data.kind());
  for (const auto& [key, changed] : Changes{{"data.first_column", !data.first_column.empty()},
                                            {"data.second_column", !data.second_column.empty()},
                                            {"data.label_column", !data.label_column.empty()},
                                            {"data.group_column", !data.group_column.empty()},
                                            {"data.truncation", data.truncation != defaults.truncation},
                                            {"data.order", data.order != defaults.order},
                                            {"training.micro_tokens", config.training.micro_tokens != 0}}) {
    require(labelled || !changed, {key, "data.task"}, "it needs data.task=classify or regress");
  }
  const bool classes = data.kind() == TaskKind::classify;
  require(classes || data.labels.empty(), {"data.labels", "data.task"}, "only data.task=classify has classes");
  require(classes || data.class_weights.empty(), {"data.class_weights", "data.task"},
          "only data.task=classify has classes to weight");
  const AugmentConfig& augment = config.augment;
  for (const auto& [key, changed] : Changes{{"augment.synonyms", augment.synonyms > 0},
                                            {"augment.swap", augment.swap > 0},
                                            {"augment.deletion", augment.deletion > 0},
                                            {"augment.span_mask", augment.span_mask > 0},
                                            {"augment.token_dropout", augment.token_dropout > 0},
                                            {"augment.synonyms_file", !augment.synonyms_file.empty()}}) {
    require(labelled || !changed, {key, "data.task"},
            "only labelled data is augmented: use data.task=classify or regress");
  }
  require((augment.synonyms > 0) == !augment.synonyms_file.empty(), {"augment.synonyms", "augment.synonyms_file"},
          "set both or neither");
  if (!labelled) return;
  for (const auto& [key, changed] : Changes{{"data.column", data.column != defaults.column},
                                            {"data.eos", data.eos != defaults.eos},
                                            {"data.lines", data.lines},
                                            {"data.packing", data.packing != defaults.packing},
                                            {"data.streaming", data.streaming},
                                            {"data.cache", !data.cache.empty()},
                                            {"eval.tokens", config.eval.tokens != EvalConfig().tokens}}) {
    require(!changed, {key, "data.task"}, "it does not apply to labelled data");
  }
}

void check_model(const RunConfig& config, const Require& require) {
  const ModelConfig &model = config.model, defaults;
  const bool from_file = !model.path.empty();
  for (const auto& [key, changed] : Changes{{"model.style", model.style != defaults.style},
                                            {"model.layers", model.layers != defaults.layers},
                                            {"model.heads", model.heads != defaults.heads},
                                            {"model.kv_heads", model.kv_heads != defaults.kv_heads},
                                            {"model.width", model.width != defaults.width},
                                            {"model.mlp_width", model.mlp_width != defaults.mlp_width},
                                            {"model.tied", model.tied != defaults.tied},
                                            {"model.bias", model.bias != defaults.bias}}) {
    require(!from_file || !changed, {key, "model.path"}, "the model's config.json determines it: leave it out");
  }
  require(model.bias || model.style == "gpt2", {"model.bias", "model.style"},
          "only model.style=gpt2 can do without biases");
  require(from_file || model.init == "file", {"model.init", "model.path"},
          "without model.path the weights are random anyway");
  require(!from_file || !config.data.path.empty(), {"model.path", "data.path"},
          "a pretrained model needs tokenised data: name the data with data.path");
  const bool masked = config.data.kind() == TaskKind::mask;
  const bool for_encoders = is_labelled(config.data.kind()) || masked;
  require(model.style != "bert" || for_encoders, {"model.style", "data.task"},
          "bert is an encoder: use data.task=classify, regress or mask");
  require(!masked || from_file || model.style == "bert", {"data.task", "model.style"},
          "data.task=mask trains an encoder: use model.style=bert, or an encoder as model.path");
  const AdapterTrainingConfig& adapter = config.adapter;
  require(!adapter.on() || from_file, {"adapter.kind", "model.path"},
          "adapters need a pretrained model: name it with model.path");
  require(adapter.path.empty() || adapter.kind == "none", {"adapter.path", "adapter.kind"},
          "the folder's adapter_config.json determines the kind: leave out adapter.kind");
  require(adapter.kind != "dora" || adapter.dropout == 0, {"adapter.kind", "adapter.dropout"},
          "DoRA with dropout would compute every base layer twice: use adapter.dropout=0, or adapter.kind=lora");
  require(adapter.on() || model.load_in == defaults.load_in, {"model.load_in", "adapter.kind"},
          "only frozen weights can be quantised: train adapters, say with adapter.kind=lora");
  require(adapter.on() || adapter.modules_to_save.empty(), {"adapter.modules_to_save", "adapter.kind"},
          "without adapters everything is trained anyway");
  if (from_file) return;
  require(model.width % model.heads == 0, {"model.width", "model.heads"},
          "the width must be a multiple of the number of heads");
  require(model.kv_heads == 0 || model.heads % model.kv_heads == 0, {"model.heads", "model.kv_heads"},
          "the number of heads must be a multiple of kv_heads");
}

// Refuses settings that nothing would read.
void check_data(const RunConfig& config, const Require& require) {
  const DataConfig &data = config.data, defaults;
  const bool tokens = !data.path.empty();
  for (const auto& [key, changed] : std::initializer_list<std::pair<const char*, bool>>{
           {"data.tokenizer", data.tokenizer != defaults.tokenizer},
           {"data.task", data.task != defaults.task},
           {"data.column", data.column != defaults.column},
           {"data.eos", data.eos != defaults.eos},
           {"data.lines", data.lines != defaults.lines},
           {"data.packing", data.packing != defaults.packing},
           {"data.streaming", data.streaming != defaults.streaming},
           {"data.cache", data.cache != defaults.cache},
           {"data.bad_records", data.bad_records != defaults.bad_records},
           {"data.validation_path", data.validation_path != defaults.validation_path}}) {
    require(tokens || !changed, {key, "data.path"}, "it needs tokenised data: name the data with data.path");
  }
  check_labelled(config, require);
  if (!tokens) return;
  require(!data.tokenizer.empty() || !config.model.path.empty(), {"data.path", "data.tokenizer"},
          "name the tokenizer, or use data.tokenizer=byte");
  require(data.dataset == defaults.dataset, {"data.path", "data.dataset"}, "set only one of them");
  require(data.max_chars == 0, {"data.path", "data.max_chars"}, "it only applies to data.dataset");
  require(!data.download, {"data.path", "data.download"}, "only a data.dataset can be downloaded");
  const bool instruct = data.kind() == TaskKind::instruct, masked = data.kind() == TaskKind::mask;
  require(!instruct || data.column == defaults.column, {"data.task", "data.column"},
          "the fields of instruction records have fixed names");
  require(!instruct || data.eos == defaults.eos, {"data.task", "data.eos"},
          "the tokenizer's files determine how an answer ends");
  require(masked || data.mask_probability == defaults.mask_probability, {"data.mask_probability", "data.task"},
          "it needs data.task=mask");
  require(!masked || data.eos == defaults.eos, {"data.task", "data.eos"},
          "the tokenizer's files determine the special tokens around a text");
  if (!data.streaming) return;
  require(!data.validation_path.empty(), {"data.streaming", "data.validation_path"},
          "no part of a stream can be held out: name the validation data");
  // The length of an epoch is not known before its end.
  const auto counts_no_epochs = [&](const char* key, int64_t value) {
    require(value == 0, {"data.streaming", key}, "a stream has no epochs: count steps instead");
  };
  counts_no_epochs("training.epochs", config.training.epochs);
  counts_no_epochs("eval.every_epochs", config.eval.every_epochs);
  counts_no_epochs("checkpoint.every_epochs", config.checkpoint.every_epochs);
}

}  // namespace

std::vector<BrokenRule> broken_rules(const RunConfig& config) {
  std::vector<BrokenRule> broken;
  const auto require = [&](bool good, std::vector<std::string> keys, std::string rule) {
    if (!good) broken.push_back({std::move(keys), std::move(rule)});
  };
  check_data(config, require);
  check_model(config, require);
  check_metric(config, require);
  // With two lengths it would be unclear which one ends the run.
  require((config.training.steps == 0) != (config.training.epochs == 0), {"training.steps", "training.epochs"},
          "set one of them to 0, and the other to the length of the run");
  require(config.schedule.name == "constant" || config.optimizer.min_lr <= config.optimizer.lr,
          {"optimizer.min_lr", "optimizer.lr"}, "the rate at the end of the schedule must not exceed the peak");
  return broken;
}

}  // namespace gradmill
