// SPDX-License-Identifier: Apache-2.0
// Qwen 3.
#include "model_files/families/decoder.h"
#include "model_files/families/qwen2.h"
#include "model_files/gguf/gguf_decoder.h"

namespace gradmill {
namespace {

constexpr Architecture kArchitectures[] = {
    {"Qwen3ForCausalLM", HeadKind::causal_lm},
    {"Qwen3ForSequenceClassification", HeadKind::classifier},
    {"Qwen3Model", HeadKind::none},
};

void read(const ConfigReader& reader, HfConfig& config) {
  read_qwen(reader, config);
  TransformerSpec& spec = config.spec;
  spec.qkv_bias = spec.out_bias = reader.flag("attention_bias", false);
  spec.qk_norm = true;
  if (!reader.object().contains("head_dim")) spec.head_dim = 128;
}

TransformerSpec preset(const ModelSizes& sizes) {
  TransformerSpec spec = llama_preset(sizes);
  spec.qk_norm = true;
  return spec;
}

void read_gguf(const GgufKeys& keys, nlohmann::ordered_json& json) {
  read_gguf_llama(keys, json);
  json["attention_bias"] = has_gguf_out_bias(keys);
}

void write_gguf(GgufMetadata& metadata, const std::string& prefix, const TransformerSpec& spec) {
  if (spec.qkv_bias) throw no_gguf_form("attention_bias in this architecture");
  write_gguf_llama(metadata, prefix, spec);
}

}  // namespace

extern const Family kQwen3 = {
    .name = "qwen3",
    .params = kLlamaNames,
    .architectures = kArchitectures,
    .read = read,
    .write = write_llama_shape,
    .preset = preset,
    .gguf = {.architecture = "qwen3", .read = read_gguf, .write = write_gguf},
};

}  // namespace gradmill
