// SPDX-License-Identifier: Apache-2.0
#include "run/run_model.h"

#include "core/error.h"
#include "model_files/families/registry.h"
#include "model_files/model_folder.h"
#include "run/run_options.h"

namespace gradmill {
namespace {

void set_task_head(HfConfig& config, const Task& task) {
  if (task.predicts_tokens()) {
    if (config.spec.head != task.head()) set_head(config, task.head());
    return;
  }
  set_head(config, task.head(), task.output_names());
  config.problem_type = task.problem_type();
}

RunModel make_run_model(HfConfig hf, const RunConfig& config, const Task& task,
                        std::shared_ptr<TensorSource> weights = nullptr) {
  TransformerSpec spec = hf.spec;
  spec.dropout = config.model.dropout > 0;
  return {.hf = std::move(hf),
          .task = task,
          .network = std::make_shared<const Transformer>(spec),
          .weights = std::move(weights)};
}

RunModel from_files(ModelFiles files, const RunConfig& config, const Task& task, int64_t vocab) {
  set_task_head(files.config, task);
  check_model_fits(config, files.config, vocab);
  return make_run_model(std::move(files.config), config, task, std::move(files.tensors));
}

RunModel from_settings(const RunConfig& config, const Task& task, int64_t vocab) {
  TransformerSpec spec = model_spec(config, vocab);
  spec.complete();
  HfConfig hf = new_model_config(family_named(config.model.style), std::move(spec));
  set_task_head(hf, task);
  return make_run_model(std::move(hf), config, task);
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
  if (weights) weight_map = gradmill::map_weights(*weights, family(), *network, task.may_have_new_head());
}

WeightMap RunModel::map_for(const Transformer& other) const {
  if (weight_map && &other == network.get()) return *weight_map;
  return gradmill::map_weights(*weights, family(), other, task.may_have_new_head());
}

std::string RunModel::config_json(std::optional<int32_t> eos) const {
  HfConfig written = hf;
  if (hf.source.empty() && eos) written.eos_tokens = {*eos};
  return write_model_config(written, DType::fp32);
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
    model.adapters = plan_adapters(config, task, model.family(), *model.network, model.weights.get());
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
