// SPDX-License-Identifier: Apache-2.0
// Models named by a path: a Hugging Face folder or a .gguf file, or adapters in a PEFT folder.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "data/labelled/label_map.h"
#include "model_files/model_config.h"
#include "model_files/tensor_source.h"

namespace gradmill {

struct ModelFiles {
  HfConfig config;
  std::shared_ptr<TensorSource> tensors;  // null if only the configuration was asked for
};
ModelFiles open_model_files(const std::filesystem::path& path, bool with_tensors);
HfConfig open_model_config(const std::filesystem::path& path);

// The classes of a model; nothing if it is not a classifier, or has no names for them.
std::optional<LabelMap> labels_of_model(const HfConfig& config);

// Kinds of paths that are not runs of ours.
bool is_model_path(const std::filesystem::path& path);
bool is_peft_path(const std::filesystem::path& path);

}  // namespace gradmill
