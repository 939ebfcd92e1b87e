// SPDX-License-Identifier: Apache-2.0
#include "run/run_model.h"

#include "core/error.h"
#include "model_files/model_folder.h"
#include "run/model_folder.h"
#include "run/run_options.h"

namespace gradmill {
namespace {

// The default of transformers' classes for sequences.
void set_classifier(TransformerSpec& spec, int64_t outputs) {
  const bool encoder = !spec.causal;
  spec.head = HeadKind::classifier;
  spec.labels = outputs;
  spec.pooling = encoder ? Pooling::first : Pooling::last;
  spec.pooler = encoder ? PoolerKind::tanh : PoolerKind::none;
  spec.classifier_bias = encoder;
}

void set_task_head(HfConfig& config, const Task& task) {
  if (task.predicts_tokens()) {
    if (config.spec.head != task.head()) set_head(config, task.head());
    return;
  }
  set_head(config, task.head(), task.output_names());
  config.problem_type = task.problem_type();
}

RunModel from_files(ModelFiles files, const RunConfig& config, const Task& task, int64_t vocab) {
  set_task_head(files.config, task);
  check_model_fits(config, files.config, vocab);
  TransformerSpec spec = files.config.spec;
  spec.dropout = config.model.dropout > 0;
  RunModel model{.family = files.config.family, .task = task, .weights = std::move(files.tensors)};
  model.hf = std::move(files.config);
  model.network = std::make_shared<const Transformer>(spec);
  return model;
}

RunModel from_settings(const RunConfig& config, const Task& task, int64_t vocab) {
  TransformerSpec spec = model_spec(config, vocab);
  if (task.head() == HeadKind::classifier) set_classifier(spec, task.num_outputs());
  if (task.head() == HeadKind::masked_lm) spec.head = HeadKind::masked_lm;
  return {.family = family_of(spec), .task = task, .network = std::make_shared<const Transformer>(spec)};
}

}  // namespace

void check_model_fits(const RunConfig& config, const HfConfig& hf, int64_t vocab) {
  check_tokenizer(hf, vocab, config.model.path);
  if (config.model.context > hf.spec.max_positions) {
    throw usage_error(fmt::format("model.context is {}, but '{}' has only {} positions", config.model.context,
                                  config.model.path, hf.spec.max_positions),
                      fmt::format("use model.context={} or less", hf.spec.max_positions));
  }
}

void RunModel::map_weights() {
  if (weights) weight_map = gradmill::map_weights(*weights, family, *network, task.may_have_new_head());
}

WeightMap RunModel::map_for(const Transformer& other) const {
  if (weight_map && &other == network.get()) return *weight_map;
  return gradmill::map_weights(*weights, family, other, task.may_have_new_head());
}

std::string RunModel::config_json(std::optional<int32_t> eos) const {
  return hf ? write_model_config(*hf, DType::fp32) : model_config_json(spec(), eos, task);
}

ModelFiles open_model_files(const RunConfig& config) {
  return open_model_files(config.model.path, config.model.init == "file");
}

RunModel open_run_model(const RunConfig& config, const Task& task, int64_t vocab, ModelUse use) {
  if (config.model.path.empty()) return from_settings(config, task, vocab);
  return open_run_model(config, task, vocab, open_model_files(config), use);
}

RunModel open_run_model(const RunConfig& config, const Task& task, int64_t vocab, ModelFiles files, ModelUse use) {
  RunModel model = from_files(std::move(files), config, task, vocab);
  if (config.adapter.on()) {
    model.adapters = plan_adapters(config, task, model.family, *model.network, model.weights.get());
    if (use == ModelUse::inference) model.adapters->plan.dropout = 0;
    model.network = std::make_shared<const Transformer>(model.spec(), model.adapters->plan);
  }
  return model;
}

RunModel open_saved_model(const RunConfig& config, const Task& task, int64_t vocab, const Checkpoint& checkpoint) {
  if (config.model.path.empty() || config.adapter.on()) {
    RunConfig saved = config;
    if (!config.adapter.path.empty()) saved.adapter.path = checkpoint.folder().string();
    return open_run_model(saved, task, vocab, ModelUse::inference);
  }
  return from_files({read_folder_config(checkpoint.folder()), nullptr}, config, task, vocab);
}

}  // namespace gradmill
