// SPDX-License-Identifier: Apache-2.0
#include "model_files/open_model.h"

#include "model_files/gguf/gguf_model.h"
#include "model_files/model_folder.h"

namespace gradmill {
namespace {

OpenedModel open_gguf(const std::filesystem::path& path) {
  OpenedModel opened;
  auto model = std::make_unique<GgufModel>(path);
  GgufTokenizer tokenizer = gguf_tokenizer(model->file());
  model->check();
  if (!tokenizer.json.empty()) {
    opened.files.push_back({"tokenizer.json", std::move(tokenizer.json)});
    opened.files.push_back({"tokenizer_config.json", std::move(tokenizer.config_json)});
  }
  opened.config = model->config();
  opened.tensors = std::move(model);
  return opened;
}

}  // namespace

OpenedModel open_model(const std::filesystem::path& path) {
  if (path.extension() == ".gguf") return open_gguf(path);
  OpenedModel opened;
  opened.config = read_folder_config(path);
  opened.files = companion_files(path, opened.config);
  opened.tensors = std::make_unique<FolderTensors>(path);
  return opened;
}

}  // namespace gradmill
