// SPDX-License-Identifier: Apache-2.0
// Decoders in llama.cpp's files, as families read and write them: keys of config.json from a file's metadata, and back.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "model_files/gguf/gguf_file.h"
#include "model_files/gguf/gguf_metadata.h"
#include "models/transformer_spec.h"

namespace gradmill {

// A file's keys of one architecture, named without it: "block_count" is "llama.block_count".
class GgufKeys {
 public:
  // `file` must outlive this.
  GgufKeys(const GgufFile& file, std::string_view architecture) : file_(file), architecture_(architecture) {}

  const GgufFile& file() const { return file_; }
  const GgufValue* find(std::string_view name) const { return file_.find(key(name)); }
  std::string_view text(std::string_view name, std::string_view fallback) const {
    return file_.text(key(name), fallback);
  }
  int64_t whole(std::string_view name, std::optional<int64_t> fallback = std::nullopt) const {
    return file_.whole(key(name), fallback);
  }
  // With as few digits as tell fp32 values apart.
  double number(std::string_view name, std::optional<double> fallback = std::nullopt) const;
  Error refusal(std::string_view name, std::string_view supported) const { return file_.refusal(key(name), supported); }
  // Refuses files with a sliding window.
  void refuse_window() const;

  const GgufTensor* find_tensor(std::string_view name) const;  // null where there is none

 private:
  std::string key(std::string_view name) const { return fmt::format("{}.{}", architecture_, name); }

  const GgufFile& file_;
  std::string architecture_;
};

// Sizes, norms and rotary positions of Llama and what followed it.
void read_gguf_decoder(const GgufKeys& keys, double usual_theta, nlohmann::ordered_json& json);
// Also SwiGLU, and no window.
void read_gguf_llama(const GgufKeys& keys, nlohmann::ordered_json& json);
bool has_gguf_out_bias(const GgufKeys& keys);

void write_gguf_decoder(GgufMetadata& metadata, const std::string& prefix, const TransformerSpec& spec);
void write_gguf_llama(GgufMetadata& metadata, const std::string& prefix, const TransformerSpec& spec);

// "GGUF cannot express ..."
Error no_gguf_form(std::string_view what);

}  // namespace gradmill
