// SPDX-License-Identifier: Apache-2.0
// Gemma 3's text models, alone or inside a multimodal one.
#include <cmath>

#include "model_files/families/decoder.h"
#include "model_files/families/layer_keys.h"
#include "model_files/families/rope_config.h"
#include "model_files/gguf/gguf_decoder.h"

namespace gradmill {
namespace {

constexpr NamePair kInner[] = {
    {"norm1", "input_layernorm"},
    {"attention.qkv/q", "self_attn.q_proj"},
    {"attention.qkv/k", "self_attn.k_proj"},
    {"attention.qkv/v", "self_attn.v_proj"},
    {"attention.q_norm", "self_attn.q_norm"},
    {"attention.k_norm", "self_attn.k_norm"},
    {"attention.out", "self_attn.o_proj"},
    {"norm1_out", "post_attention_layernorm"},
    {"norm2", "pre_feedforward_layernorm"},
    {"mlp.up/gate", "mlp.gate_proj"},
    {"mlp.up/up", "mlp.up_proj"},
    {"mlp.down", "mlp.down_proj"},
    {"norm2_out", "post_feedforward_layernorm"},
};

constexpr Architecture kArchitectures[] = {
    {"Gemma3ForCausalLM", HeadKind::causal_lm},
    {"Gemma3ForConditionalGeneration", HeadKind::causal_lm},
    {"Gemma3TextForSequenceClassification", HeadKind::classifier},
    {"Gemma3ForSequenceClassification", HeadKind::classifier},
    {"Gemma3TextModel", HeadKind::none},
    {"Gemma3Model", HeadKind::none},
};

constexpr int64_t kUsualPattern = 6;  // every sixth layer sees all keys

// The largest model scales by width and heads, the others by the head's size; GGUF files do not tell which.
constexpr int64_t kLayersOf27B = 62;

void read(const ConfigReader& reader, HfConfig& config) {
  TransformerSpec& spec = config.spec;
  read_llama_shape(
      reader, {.vocab = 262208, .width = 2304, .mlp_width = 9216, .layers = 26, .heads = 8, .positions = 131072}, spec);
  spec.kv_heads = reader.size("num_key_value_heads", 4);
  spec.head_dim = reader.size("head_dim", 256);
  spec.activation = read_gelu(reader, "hidden_activation", "gelu_pytorch_tanh", true);
  spec.norm_placement = NormPlacement::around;
  spec.norm_offset = 1;
  spec.qk_norm = true;
  spec.qkv_bias = spec.out_bias = reader.flag("attention_bias", false);
  spec.tied = reader.flag("tie_word_embeddings", true);
  spec.attention_scale = 1 / std::sqrt(reader.positive("query_pre_attn_scalar", 256));
  spec.embedding_scale = std::sqrt(static_cast<float>(spec.width));
  if (reader.has("final_logit_softcapping")) spec.logit_softcap = reader.positive("final_logit_softcapping", 0);
  reader.require_flag("use_bidirectional_attention", false, false);
  read_rope(
      reader,
      {.local_theta = "rope_local_base_freq", .theta_default = 1e6, .local_theta_default = 1e4, .by_layer_type = true},
      spec);
  const char* const pattern_key =
      reader.has("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
  const int64_t pattern = reader.size(pattern_key, kUsualPattern, ConfigReader::kMostLayers);
  std::vector<bool> local;
  for (int64_t layer = 0; layer < spec.layers; ++layer) local.push_back((layer + 1) % pattern != 0);
  spec.local_layers = read_layer_types(reader, spec.layers, std::move(local));
  const bool named = reader.object().contains("sliding_window");
  spec.window = reader.size("sliding_window", named ? std::nullopt : std::optional<int64_t>(4096));
  config.dropout.attention = reader.probability("attention_dropout", 0);
}

// Writes out the sizes, because defaults of the text model differ between versions. Other keys stay as they are.
void write_text_part(const TransformerSpec& spec, nlohmann::ordered_json& json) {
  json["hidden_size"] = spec.width;
  json["intermediate_size"] = spec.mlp_width;
  json["num_hidden_layers"] = spec.layers;
  json["num_attention_heads"] = spec.heads;
  json["num_key_value_heads"] = spec.kv_heads;
  json["head_dim"] = spec.head_dim;
  json["max_position_embeddings"] = spec.max_positions;
  json["sliding_window"] = spec.window;
}

void read_gguf(const GgufKeys& keys, nlohmann::ordered_json& json) {
  read_gguf_decoder(keys, 1e6, json);
  json["hidden_activation"] = "gelu_pytorch_tanh";
  json["sliding_window"] = keys.whole("attention.sliding_window");
  json["sliding_window_pattern"] = kUsualPattern;
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  if (const GgufValue* pattern = keys.find(kPattern)) {
    if (!std::holds_alternative<uint64_t>(*pattern)) throw keys.refusal(kPattern, "one whole number");
    json["sliding_window_pattern"] = keys.whole(kPattern);
  }
  json["rope_local_base_freq"] = keys.number("rope.freq_base_swa", 1e4);
  const int64_t width = json["hidden_size"], heads = json["num_attention_heads"], head_dim = json["head_dim"];
  json["query_pre_attn_scalar"] = keys.whole("block_count") == kLayersOf27B ? width / heads : head_dim;
  if (keys.find("final_logit_softcapping") != nullptr) {
    json["final_logit_softcapping"] = keys.number("final_logit_softcapping");
  }
}

// llama.cpp derives the layers with a window, and the scale of scores, from the family alone.
void write_gguf(GgufMetadata& metadata, const std::string& prefix, const TransformerSpec& spec) {
  write_gguf_decoder(metadata, prefix, spec);
  for (size_t layer = 0; layer < spec.local_layers.size(); ++layer) {
    if (spec.local_layers[layer] != ((layer + 1) % kUsualPattern != 0)) {
      throw no_gguf_form("layers with windows in another pattern");
    }
  }
  const auto usual = static_cast<float>(spec.layers == kLayersOf27B ? spec.width / spec.heads : spec.head_dim);
  if (std::abs(spec.attention_scale * std::sqrt(usual) - 1) > 1e-5f) throw no_gguf_form("this query_pre_attn_scalar");
  if (spec.local_rope_theta != 10000) throw no_gguf_form("this rope_local_base_freq");
  if (spec.activation != Activation::geglu_tanh) throw no_gguf_form("this activation");
  metadata.add_whole(prefix + "attention.sliding_window", spec.window);
  if (spec.logit_softcap != 0) metadata.add_number(prefix + "final_logit_softcapping", spec.logit_softcap);
}

}  // namespace

extern const Family kGemma3 = {
    .name = "gemma3_text",
    .multimodal = "gemma3",
    .params = {.prefix = "model.", .layer = "layers.", .body = kLlamaBody, .inner = kInner, .heads = kDecoderHeads},
    .architectures = kArchitectures,
    .read = read,
    .write = write_text_part,
    .gguf = {.architecture = "gemma3", .norms_hold_offset = true, .read = read_gguf, .write = write_gguf},
};

}  // namespace gradmill
