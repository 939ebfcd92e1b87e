// SPDX-License-Identifier: Apache-2.0
// Llama.
#include "model_files/families/decoder.h"
#include "model_files/gguf/gguf_decoder.h"

namespace gradmill {
namespace {

constexpr Architecture kArchitectures[] = {
    {"LlamaForCausalLM", HeadKind::causal_lm},
    {"LlamaForSequenceClassification", HeadKind::classifier},
    {"LlamaModel", HeadKind::none},
};

void read(const ConfigReader& reader, HfConfig& config) {
  read_llama_like(reader, {}, config);
  config.spec.qkv_bias = config.spec.out_bias = reader.flag("attention_bias", false);
  config.spec.mlp_bias = reader.flag("mlp_bias", false);
}

void read_gguf(const GgufKeys& keys, nlohmann::ordered_json& json) {
  read_gguf_llama(keys, json);
  json["attention_bias"] = has_gguf_out_bias(keys);
}

}  // namespace

extern const Family kLlama = {
    .name = "llama",
    .params = kLlamaNames,
    .architectures = kArchitectures,
    .read = read,
    .write = write_llama_shape,
    .preset = llama_preset,
    .gguf = {.architecture = "llama", .rotated_rows = true, .read = read_gguf, .write = write_gguf_llama},
};

}  // namespace gradmill
