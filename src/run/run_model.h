// SPDX-License-Identifier: Apache-2.0
// RunModel: which network a run trains, what of it, what stands in its config.json, and where its first weights come
// from.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "adapters/adapter_config.h"
#include "checkpoint/checkpoint.h"
#include "config/run_config.h"
#include "model_files/model_config.h"
#include "model_files/tensor_source.h"
#include "run/run_data.h"

namespace gradmill {

struct RunModel {
  HfFamily family = HfFamily::gpt2;
  TransformerSpec spec;
  AdapterPlan plan;
  RunTask task;
  std::optional<HfConfig> hf;             // of a model from files
  std::optional<AdapterConfig> adapter;   // where only adapters and the task's head train
  std::shared_ptr<TensorSource> weights;  // null: random
  std::filesystem::path adapter_folder;   // whose values adapters start with; empty: new ones
  std::string base_hash;                  // tells whether the files that adapters belong to are still the same

  Transformer make() const { return Transformer(spec, plan); }
  // As a folder of this model has it; `eos` is the token that ends a text.
  std::string config_json(std::optional<int32_t> eos) const;
};

// Throws a usage_error for settings that do not fit together, a data_error for files that cannot be used.
RunModel open_run_model(const RunConfig& config, const RunTask& task, int64_t vocab);
// The model of a run's checkpoint: of adapters with their base, of anything else without weights.
RunModel open_saved_model(const RunConfig& config, const RunTask& task, int64_t vocab, const Checkpoint& checkpoint);

// Of a folder or a .gguf file.
HfConfig open_model_config(const std::filesystem::path& path);
// The classes of model.path; nothing where it is no classifier, or never had names for them.
std::optional<LabelMap> labels_of_model(const RunConfig& config);

// What a path without a run behind it may be: a folder of Hugging Face's or a .gguf file; or adapters in a folder of
// PEFT's.
bool is_model_path(const std::filesystem::path& path);
bool is_peft_path(const std::filesystem::path& path);

// Throws where a run with these settings could not start from model.path, as far as that shows without its values and
// without the data: before hours go into tokenising that.
void check_model_path(const RunConfig& config, const RunTokenizer& tokenizer);

// Random weights stay where the files have none: a new head. `note` is told which.
void load_first_weights(const RunModel& described, const Transformer& model, Session& session,
                        const std::function<void(const std::string&)>& note);

}  // namespace gradmill
