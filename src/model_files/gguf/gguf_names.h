// SPDX-License-Identifier: Apache-2.0
// llama.cpp's names for tensors, keys and pre-tokenizers, and Hugging Face's names for the same.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model_files/model_config.h"

namespace gradmill {

// "blk.3.attn_q.weight" <-> "model.layers.3.self_attn.q_proj.weight"; nothing if the other side has no such tensor.
std::optional<std::string> hf_name_of_gguf(HfFamily kind, std::string_view name);
std::optional<std::string> gguf_name_of_hf(HfFamily kind, std::string_view name);

// general.architecture. Nothing for models that GGUF stores in another form.
std::optional<HfFamily> kind_of_architecture(std::string_view name);
std::optional<std::string_view> architecture_of_kind(HfFamily kind);

// Pre-tokenizers of byte-level vocabularies, as the JSON text in tokenizer.json.
struct GgufPreTokenizer {
  std::string_view name;  // tokenizer.ggml.pre
  std::string_view json;
  bool nfc = false, ignore_merges = false;
};
const GgufPreTokenizer* find_pre_tokenizer(std::string_view name);
// The pre-tokenizer with this `json`, which is compact, as nlohmann::json dumps it.
const GgufPreTokenizer* match_pre_tokenizer(std::string_view json);
// For messages.
std::string pre_tokenizer_names();

}  // namespace gradmill
