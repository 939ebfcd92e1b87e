// SPDX-License-Identifier: Apache-2.0
// The adapters of a run's model: new ones from the settings, or those in a folder made by PEFT or an export.
#pragma once

#include <filesystem>
#include <string>

#include "adapters/adapter_config.h"
#include "model_files/tensor_source.h"
#include "model_files/families/family.h"
#include "models/transformer.h"
#include "run/task.h"

namespace gradmill {

struct RunAdapters {
  AdapterConfig config;
  AdapterPlan plan;
  std::filesystem::path folder;  // has their initial values; empty: new adapters
  std::string base_hash;         // shows whether the base's files are still the same
};

// `base` is the model without adapters; `weights` its tensors, or null.
RunAdapters plan_adapters(const RunConfig& config, const Task& task, const Family& family, const Transformer& base,
                          const TensorSource* weights);

}  // namespace gradmill
