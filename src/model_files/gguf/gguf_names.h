// SPDX-License-Identifier: Apache-2.0
// llama.cpp's names for tensors, keys and pre-tokenizers, and Hugging Face's names for the same.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model_files/families/family.h"

namespace gradmill {

// "blk.3.attn_q.weight" <-> "model.layers.3.self_attn.q_proj.weight"; nothing if the other side has no such tensor.
std::optional<std::string> hf_name_of_gguf(const Family& family, std::string_view name);
std::optional<std::string> gguf_name_of_hf(const Family& family, std::string_view name);

// Whether a GGUF tensor holds a layer's queries or keys (weight or bias).
bool is_gguf_query_or_key(std::string_view name);

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
