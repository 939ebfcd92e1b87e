// SPDX-License-Identifier: Apache-2.0
// A GGUF file as a model: its config, its tensors under Hugging Face's names, and its tokenizer.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "files/mapped_file.h"
#include "model_files/gguf/gguf_file.h"
#include "model_files/hf_config.h"
#include "model_files/tensor_source.h"

namespace gradmill {

// Values are those of transformers: rotated rows in its order, and Gemma's norms without the added 1.
class GgufModel final : public TensorSource {
 public:
  // Throws a data_error that names the file and the part that cannot be used.
  explicit GgufModel(const std::filesystem::path& path);
  // Reads from bytes that must outlive it.
  GgufModel(std::span<const std::byte> bytes, std::string_view where);

  const HfConfig& config() const { return config_; }
  const GgufFile& file() const { return file_; }
  const std::vector<SourceTensor>& tensors() const override { return tensors_; }
  void read_rows(size_t index, int64_t begin, int64_t end, float* out) const override;
  // To be called after file()'s bytes were read: throws a data_error when they could not be.
  void check() const {
    if (mapping_) mapping_->check();
  }

 private:
  struct Place {
    size_t tensor = 0;
    int64_t head_rows = 0;  // rows per head if they are stored in pairs; 0: stored in order
    bool minus_one = false;
  };
  void add_tensors();
  Place place_of(size_t tensor) const;
  // Rows as stored.
  void read_stored(size_t tensor, int64_t begin, int64_t end, float* out) const;

  std::optional<MappedFile> mapping_;
  GgufFile file_;
  HfConfig config_;
  std::vector<SourceTensor> tensors_;  // sorted by name
  std::vector<Place> places_;
};

// A tokenizer.json and tokenizer_config.json made from a file; empty if it has no tokenizer. Throws a data_error for an
// unknown kind of tokenizer.
struct GgufTokenizer {
  std::string json, config_json;
};
GgufTokenizer gguf_tokenizer(const GgufFile& file);

}  // namespace gradmill
