// SPDX-License-Identifier: Apache-2.0
// GPT-2, Llama, Qwen and Gemma 3. Defaults are those of transformers' classes, because files leave out default values.
#include <algorithm>
#include <cmath>

#include "files/strict_json.h"
#include "model_files/family_configs.h"

namespace gradmill {
namespace {

constexpr int64_t kMostPositions = int64_t{1} << 31;

struct LlamaDefaults {
  int64_t vocab = 32000, width = 4096, mlp_width = 11008, layers = 32, heads = 32, positions = 2048;
};

// The settings that Llama and all later decoders share.
void read_llama_shape(const ConfigReader& reader, const LlamaDefaults& defaults, TransformerSpec& spec) {
  spec.vocab = reader.size("vocab_size", defaults.vocab);
  spec.width = reader.size("hidden_size", defaults.width);
  spec.mlp_width = reader.size("intermediate_size", defaults.mlp_width);
  spec.layers = reader.size("num_hidden_layers", defaults.layers, ConfigReader::kMostLayers);
  spec.heads = reader.size("num_attention_heads", defaults.heads);
  spec.max_positions = reader.size("max_position_embeddings", defaults.positions, kMostPositions);
  spec.norm_eps = reader.positive("rms_norm_eps", 1e-6);
  spec.init_std = reader.positive("initializer_range", 0.02);
}

void read_silu(const ConfigReader& reader, TransformerSpec& spec) {
  reader.choice("hidden_act", "silu", {"silu", "swish"});
  spec.activation = Activation::swiglu;
}

// Qwen's windows: off, or on for the layers from max_window_layers onwards.
void read_qwen_window(const ConfigReader& reader, TransformerSpec& spec) {
  const bool on = reader.flag("use_sliding_window", false);
  const int64_t first = reader.whole("max_window_layers", 28, 0);
  // null means no window; a missing key means the default of the class.
  const int64_t usual = reader.object().contains("sliding_window") ? 0 : 4096;
  const int64_t window = on ? reader.whole("sliding_window", usual, 0) : 0;
  std::vector<bool> local(static_cast<size_t>(spec.layers));
  for (int64_t layer = 0; window > 0 && layer < spec.layers; ++layer)
    local[static_cast<size_t>(layer)] = layer >= first;
  local = read_layer_types(reader, spec.layers, std::move(local));
  const auto count = std::count(local.begin(), local.end(), true);
  if (count == 0) return;
  if (window == 0) throw reader.refusal("sliding_window", "use_sliding_window true and a window above 0");
  spec.window = window;
  if (count == spec.layers) return;
  if (spec.rope_scaling.kind != RopeScalingKind::none) {
    throw reader.refusal("use_sliding_window", "false, or true without a scaling of rotary positions");
  }
  spec.local_layers = std::move(local);
  spec.local_rope_theta = spec.rope_theta;
}

}  // namespace

Activation read_gelu(const ConfigReader& reader, std::string_view key, std::string_view fallback, bool gated) {
  // The first two use the error function, the others the same formula with a hyperbolic tangent.
  const bool erf =
      reader.choice(key, fallback, {"gelu", "gelu_python", "gelu_new", "gelu_pytorch_tanh", "gelu_fast"}) < 2;
  if (gated) return erf ? Activation::geglu_erf : Activation::geglu_tanh;
  return erf ? Activation::gelu_erf : Activation::gelu_tanh;
}

std::vector<bool> read_layer_types(const ConfigReader& reader, int64_t layers, std::vector<bool> expected) {
  const nlohmann::json& types = reader.value("layer_types");
  if (types.is_null()) return expected;
  const std::string supported = fmt::format("{} times full_attention or sliding_attention", layers);
  if (!types.is_array() || std::ssize(types) != layers) throw reader.refusal("layer_types", supported);
  std::vector<bool> local;
  for (const nlohmann::json& type : types) {
    if (type != "full_attention" && type != "sliding_attention") throw reader.refusal("layer_types", supported);
    local.push_back(type == "sliding_attention");
  }
  return local;
}

void read_gpt2(const ConfigReader& reader, HfConfig& config) {
  TransformerSpec& spec = config.spec;
  const auto either = [&](const char* key, const char* alias) { return reader.has(key) ? key : alias; };
  spec.vocab = reader.size("vocab_size", 50257);
  spec.max_positions = reader.size(either("n_positions", "max_position_embeddings"), 1024);
  spec.width = reader.size(either("n_embd", "hidden_size"), 768);
  spec.layers = reader.size(either("n_layer", "num_hidden_layers"), 12, ConfigReader::kMostLayers);
  spec.heads = reader.size(either("n_head", "num_attention_heads"), 12);
  spec.mlp_width = reader.size("n_inner", 4 * spec.width);
  spec.positions = PositionScheme::learned;
  spec.norm = NormKind::layer;
  spec.norm_eps = reader.positive("layer_norm_epsilon", 1e-5);
  spec.activation = read_gelu(reader, "activation_function", "gelu_new", false);
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = true;
  spec.init_std = reader.positive("initializer_range", 0.02);
  spec.tied = reader.flag("tie_word_embeddings", true);
  if (!reader.flag("scale_attn_weights", true)) spec.attention_scale = 1;
  reader.require_flag("scale_attn_by_inverse_layer_idx", false, false);
  reader.require_flag("add_cross_attention", false, false);
  config.dropout = {.hidden = reader.probability("resid_pdrop", 0.1),
                    .embedding = reader.probability("embd_pdrop", 0.1),
                    .attention = reader.probability("attn_pdrop", 0.1)};
}

void read_llama(const ConfigReader& reader, HfConfig& config) {
  TransformerSpec& spec = config.spec;
  read_llama_shape(reader, {}, spec);
  spec.kv_heads = reader.size("num_key_value_heads", spec.heads);
  if (reader.has("head_dim")) spec.head_dim = reader.size("head_dim", 0);
  read_silu(reader, spec);
  spec.qkv_bias = spec.out_bias = reader.flag("attention_bias", false);
  spec.mlp_bias = reader.flag("mlp_bias", false);
  spec.tied = reader.flag("tie_word_embeddings", false);
  read_rope(reader, {}, spec);
  config.dropout.attention = reader.probability("attention_dropout", 0);
}

void read_qwen2(const ConfigReader& reader, HfConfig& config) {
  TransformerSpec& spec = config.spec;
  read_llama_shape(reader, {.vocab = 151936, .mlp_width = 22016, .positions = 32768}, spec);
  // The default of the class is 32; null means as many as heads.
  const bool named = reader.object().contains("num_key_value_heads");
  spec.kv_heads = reader.size("num_key_value_heads", named ? spec.heads : 32);
  if (reader.has("head_dim")) spec.head_dim = reader.size("head_dim", 0);
  read_silu(reader, spec);
  spec.qkv_bias = true;
  spec.tied = reader.flag("tie_word_embeddings", false);
  read_rope(reader, {}, spec);
  read_qwen_window(reader, spec);
  config.dropout.attention = reader.probability("attention_dropout", 0);
}

void read_qwen3(const ConfigReader& reader, HfConfig& config) {
  read_qwen2(reader, config);
  TransformerSpec& spec = config.spec;
  spec.qkv_bias = spec.out_bias = reader.flag("attention_bias", false);
  spec.qk_norm = true;
  if (!reader.object().contains("head_dim")) spec.head_dim = 128;
}

void read_gemma3(const ConfigReader& reader, HfConfig& config) {
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
  const int64_t pattern = reader.size(pattern_key, 6, ConfigReader::kMostLayers);
  std::vector<bool> local;
  for (int64_t layer = 0; layer < spec.layers; ++layer) local.push_back((layer + 1) % pattern != 0);
  spec.local_layers = read_layer_types(reader, spec.layers, std::move(local));
  const bool named = reader.object().contains("sliding_window");
  spec.window = reader.size("sliding_window", named ? std::nullopt : std::optional<int64_t>(4096));
  config.dropout.attention = reader.probability("attention_dropout", 0);
}

}  // namespace gradmill
