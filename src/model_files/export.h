// SPDX-License-Identifier: Apache-2.0
// Model folders that transformers loads unchanged.
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
  bool turned = false;  // a matrix that is written with its sides exchanged
  DType dtype = DType::fp32;

  std::vector<int64_t> dims() const;
};

struct ExportFile {
  std::string name;  // relative to the folder; "1_Pooling/config.json"
  std::string content;
};

struct ExportOptions {
  std::optional<DType> dtype;  // of all tensors; none: each as its source stores it
  uint64_t shard_bytes = 5'000'000'000;
};

// The model's tensors under the names that its class saves them with, and, of `origin`, those that gradmill has no use
// for (the pooler of an encoder that embeds). The origin is what the model was loaded from, or the source itself, and
// null where it had another head.
std::vector<ExportTensor> export_tensors(const TensorSource& source, const HfConfig& config, const TensorSource* origin,
                                         std::optional<DType> dtype = std::nullopt);

// Everything in a folder that belongs to the model beside config and weights: tokenizer, generation config, the layout
// of sentence-transformers. Byte for byte.
std::vector<ExportFile> companion_files(const std::filesystem::path& folder, const HfConfig& config);

// Writes config.json, the weights (in shards with an index above the limit) and the files. The folder appears whole or
// not at all; one that holds something already is refused. Throws FileError, usage_error, and data_error for a weight
// that is not finite.
void export_model(const std::filesystem::path& folder, const TensorSource& source, const HfConfig& config,
                  const std::vector<ExportFile>& files, const TensorSource* origin, const ExportOptions& options = {},
                  FileOps& ops = real_file_ops());

}  // namespace gradmill
