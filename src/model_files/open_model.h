// SPDX-License-Identifier: Apache-2.0
// Opens any model that can be read: its config, its tensors, and the files that come with it.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "model_files/export.h"
#include "model_files/model_config.h"
#include "model_files/tensor_source.h"

namespace gradmill {

struct OpenedModel {
  HfConfig config;
  std::unique_ptr<TensorSource> tensors;
  std::vector<ExportFile> files;  // tokenizer.json and the like
};

// `path` is a Hugging Face folder or a .gguf file. Only metadata is read. Throws a data_error.
OpenedModel open_model(const std::filesystem::path& path);

}  // namespace gradmill
