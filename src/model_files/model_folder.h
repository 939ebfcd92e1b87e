// SPDX-License-Identifier: Apache-2.0
// A Hugging Face model folder on disk: config.json and safetensors, in one file or in shards. Nothing in it is trusted,
// and nothing is copied: files are mapped, and tensors are read on demand.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"
#include "model_files/model_config.h"
#include "model_files/tensor_source.h"

namespace gradmill {

// The tensors of a folder's weights. Throws a data_error that names the file and the tensor, and the fix for what
// cannot be read: pickle files, an index that leads outside the folder, an adapter without its model.
class FolderTensors final : public TensorSource {
 public:
  explicit FolderTensors(const std::filesystem::path& folder);

  const std::vector<SourceTensor>& tensors() const override { return tensors_; }
  void read_rows(size_t index, int64_t begin, int64_t end, float* out) const override;

 private:
  struct Place {
    size_t file = 0, index = 0;
  };
  void add_file(const std::filesystem::path& path);
  void add_tensor(size_t file, size_t index);
  void open_shards(const std::filesystem::path& index);

  std::vector<SafeTensors> files_;
  std::vector<std::string> paths_;
  std::vector<SourceTensor> tensors_;  // sorted by name
  std::vector<Place> places_;
};

// tensor name -> file name, from model.safetensors.index.json; `where` names the file in messages. File names are
// checked to be names of safetensors files, without any path.
std::map<std::string, std::string> read_shard_index(std::string_view text, std::string_view where);

// config.json of a folder.
HfConfig read_folder_config(const std::filesystem::path& folder);

// Throws a data_error if the tokenizer has ids that the model has no row for.
void check_tokenizer(const HfConfig& config, int64_t tokenizer_size, std::string_view where);

}  // namespace gradmill
