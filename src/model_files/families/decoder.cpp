// SPDX-License-Identifier: Apache-2.0
#include "model_files/families/decoder.h"

#include "model_files/families/rope_config.h"

namespace gradmill {

void read_llama_shape(const ConfigReader& reader, const LlamaDefaults& defaults, TransformerSpec& spec) {
  constexpr int64_t kMostPositions = int64_t{1} << 31;
  spec.vocab = reader.size("vocab_size", defaults.vocab);
  spec.width = reader.size("hidden_size", defaults.width);
  spec.mlp_width = reader.size("intermediate_size", defaults.mlp_width);
  spec.layers = reader.size("num_hidden_layers", defaults.layers, ConfigReader::kMostLayers);
  spec.heads = reader.size("num_attention_heads", defaults.heads);
  spec.max_positions = reader.size("max_position_embeddings", defaults.positions, kMostPositions);
  spec.norm_eps = reader.positive("rms_norm_eps", defaults.norm_eps);
  spec.init_std = reader.positive("initializer_range", 0.02);
}

void read_llama_like(const ConfigReader& reader, const LlamaDefaults& defaults, HfConfig& config) {
  TransformerSpec& spec = config.spec;
  read_llama_shape(reader, defaults, spec);
  // null means as many as heads; a missing key means the default of the class.
  const bool named = defaults.kv_heads == 0 || reader.object().contains("num_key_value_heads");
  spec.kv_heads = reader.size("num_key_value_heads", named ? spec.heads : defaults.kv_heads);
  if (reader.has("head_dim")) spec.head_dim = reader.size("head_dim", 0);
  reader.choice("hidden_act", "silu", {"silu", "swish"});
  spec.activation = Activation::swiglu;
  spec.tied = reader.flag("tie_word_embeddings", false);
  read_rope(reader, {}, spec);
  config.dropout.attention = reader.probability("attention_dropout", 0);
}

void write_llama_shape(const TransformerSpec& spec, nlohmann::ordered_json& json) {
  json["max_position_embeddings"] = spec.max_positions;
  json["hidden_size"] = spec.width;
  json["num_hidden_layers"] = spec.layers;
  json["num_attention_heads"] = spec.heads;
  json["num_key_value_heads"] = spec.kv_heads;
  json["head_dim"] = spec.head_dim;
  json["intermediate_size"] = spec.mlp_width;
  json["hidden_act"] = "silu";
  json["rms_norm_eps"] = spec.norm_eps;
  json["rope_theta"] = spec.rope_theta;
  json["attention_bias"] = spec.out_bias;
}

TransformerSpec llama_preset(const ModelSizes& sizes) {
  const int64_t mlp_width = sizes.mlp_width != 0 ? sizes.mlp_width : (sizes.width * 8 / 3 + 31) / 32 * 32;
  TransformerSpec spec =
      qwen3_spec(sizes.vocab, sizes.layers, sizes.heads, sizes.kv_heads, sizes.width, mlp_width, sizes.context);
  spec.qk_norm = false;
  return spec;
}

}  // namespace gradmill
