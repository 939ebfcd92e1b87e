// SPDX-License-Identifier: Apache-2.0
// Writes model folders that transformers can load.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "files/file_ops.h"
#include "model_files/model_config.h"
#include "model_files/weight_map.h"

namespace gradmill {

// A tensor as it is written.
struct ExportTensor {
  std::string name;
  const TensorSource* source = nullptr;
  size_t index = 0;
  bool turned = false;  // a matrix that is written transposed
  DType dtype = DType::fp32;

  std::vector<int64_t> dims() const;
};

struct ExportFile {
  std::string name;  // relative to the folder; "1_Pooling/config.json"
  std::string content;
};

struct ExportOptions {
  std::optional<DType> dtype;  // for all tensors; none: each as its source stores it
  uint64_t shard_bytes = 5'000'000'000;
};

// The model's tensors under the names that its class saves them with, and those tensors of `origin` that gradmill does
// not use (such as the pooler of an embedding model). `origin` is what the model was loaded from, or the source itself,
// or null if the head has been replaced.
std::vector<ExportTensor> export_tensors(const TensorSource& source, const HfConfig& config, const TensorSource* origin,
                                         std::optional<DType> dtype = std::nullopt);

// All files in a folder that belong to the model besides config and weights: tokenizer, generation config, the layout
// of sentence-transformers. They are copied byte for byte.
std::vector<ExportFile> companion_files(const std::filesystem::path& folder, const HfConfig& config);

// Writes config.json, the weights (above the limit in shards with an index) and the files. The folder appears whole or
// not at all; a folder that is not empty is refused. Throws FileError, usage_error, and data_error for a weight
// that is not finite.
void export_model(const std::filesystem::path& folder, const TensorSource& source, const HfConfig& config,
                  const std::vector<ExportFile>& files, const TensorSource* origin, const ExportOptions& options = {},
                  FileOps& ops = real_file_ops());

}  // namespace gradmill
