// SPDX-License-Identifier: Apache-2.0
// RunModel: the network of a run, which parts of it are trained, its config.json, and the source of its initial
// weights.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "model_files/weight_map.h"
#include "run/model_path.h"
#include "run/run_adapters.h"
#include "run/task.h"

namespace gradmill {

// Inference has no dropout: adapters that cannot be trained with theirs can still be used.
enum class ModelUse : uint8_t { training, inference };

struct RunModel {
  HfConfig hf;
  Task task;
  std::shared_ptr<const Transformer> network;
  std::optional<RunAdapters> adapters;    // if only adapters and the task's head are trained
  std::shared_ptr<TensorSource> weights;  // null: random
  std::optional<WeightMap> weight_map;    // maps the network's parameters to `weights`

  const Family& family() const { return *hf.family; }
  const TransformerSpec& spec() const { return network->spec(); }
  std::string base_hash() const { return adapters ? adapters->base_hash : ""; }
  // Finds every parameter of the network in the files. Throws a data_error if names or shapes do not fit.
  void map_weights();
  // Returns that map if it exists and `other` is the network; otherwise makes it.
  WeightMap map_for(const Transformer& other) const;
  // The config.json of this model; `eos` is the token that ends a text.
  std::string config_json(std::optional<int32_t> eos) const;
};

// Throws a usage_error for settings that do not fit together, a data_error for files that cannot be used. The second
// form takes the opened files of model.path.
RunModel open_run_model(const RunConfig& config, const Task& task, int64_t vocab, ModelUse use = ModelUse::training);
RunModel open_run_model(const RunConfig& config, const Task& task, int64_t vocab, ModelFiles files,
                        ModelUse use = ModelUse::training);
// Throws a usage_error if the model's files do not fit the settings or the tokenizer.
void check_model_fits(const RunConfig& config, const HfConfig& hf, int64_t vocab);
// Opens model.path for training: with tensors, unless the weights are random.
ModelFiles open_model_files(const RunConfig& config);

// The model of a run's checkpoint. If it has adapters, the base is opened too; otherwise it has no weights.
RunModel open_saved_model(const RunConfig& config, const Task& task, int64_t vocab, const Checkpoint& checkpoint);

}  // namespace gradmill
