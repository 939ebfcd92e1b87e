// SPDX-License-Identifier: Apache-2.0
// RunModel: which network a run trains, what of it, what stands in its config.json, and where its first weights come
// from.
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

struct RunModel {
  HfFamily family = HfFamily::gpt2;
  Task task;
  std::shared_ptr<const Transformer> network;
  std::optional<HfConfig> hf;             // of a model from files
  std::optional<RunAdapters> adapters;    // where only adapters and the task's head train
  std::shared_ptr<TensorSource> weights;  // null: random
  std::optional<WeightMap> weight_map;    // of the network's parameters to `weights`

  const TransformerSpec& spec() const { return network->spec(); }
  std::string base_hash() const { return adapters ? adapters->base_hash : ""; }
  // Finds every parameter of the network in the files. Throws a data_error for names and shapes that do not fit.
  void map_weights();
  // That map, where it is known and `other` is the network; else it is made.
  WeightMap map_for(const Transformer& other) const;
  // As a folder of this model has it; `eos` is the token that ends a text.
  std::string config_json(std::optional<int32_t> eos) const;
};

// Throws a usage_error for settings that do not fit together, a data_error for files that cannot be used. The second
// form takes the files of model.path as they were opened.
RunModel open_run_model(const RunConfig& config, const Task& task, int64_t vocab);
RunModel open_run_model(const RunConfig& config, const Task& task, int64_t vocab, ModelFiles files);
// Throws a usage_error where the model's files do not fit the settings or the tokenizer.
void check_model_fits(const RunConfig& config, const HfConfig& hf, int64_t vocab);
// Opens model.path as training wants it: with tensors, unless the weights are random.
ModelFiles open_model_files(const RunConfig& config);

// The model of a run's checkpoint: of adapters with their base, of anything else without weights.
RunModel open_saved_model(const RunConfig& config, const Task& task, int64_t vocab, const Checkpoint& checkpoint);

}  // namespace gradmill
