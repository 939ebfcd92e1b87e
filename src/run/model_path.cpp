// SPDX-License-Identifier: Apache-2.0
#include "run/model_path.h"

#include <algorithm>

#include "adapters/peft_folder.h"
#include "model_files/gguf/gguf_model.h"
#include "model_files/model_folder.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

bool is_gguf(const fs::path& path) { return path.extension() == ".gguf"; }

}  // namespace

ModelFiles open_model_files(const fs::path& path, bool with_tensors) {
  if (is_gguf(path)) {
    auto model = std::make_shared<GgufModel>(path);
    return {model->config(), with_tensors ? model : nullptr};
  }
  ModelFiles files{read_folder_config(path), nullptr};
  if (with_tensors) files.tensors = std::make_shared<FolderTensors>(path);
  return files;
}

HfConfig open_model_config(const fs::path& path) { return open_model_files(path, false).config; }

std::optional<LabelMap> labels_of_model(const HfConfig& config) {
  const auto is_generic = [](const std::string& name) { return name.starts_with("LABEL_"); };
  if (config.labels.size() < 2 || std::any_of(config.labels.begin(), config.labels.end(), is_generic)) {
    return std::nullopt;
  }
  return LabelMap(config.labels);
}

bool is_model_path(const fs::path& path) {
  std::error_code ignored;
  if (is_gguf(path)) return true;
  return fs::exists(path / "config.json", ignored) && !fs::exists(path / "state.json", ignored) &&
         !fs::exists(path / "checkpoints", ignored);
}

bool is_peft_path(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path / kAdapterConfigFile, ignored) && !fs::exists(path / "state.json", ignored);
}

}  // namespace gradmill
