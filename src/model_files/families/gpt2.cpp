// SPDX-License-Identifier: Apache-2.0
// GPT-2.
#include "model_files/families/decoder.h"
#include "model_files/families/layer_keys.h"
#include "model_files/gguf/gguf_decoder.h"

namespace gradmill {
namespace {

constexpr NamePair kBody[] = {{"embedding.tokens", "wte"}, {"embedding.positions", "wpe"}, {"norm", "ln_f"}};
constexpr NamePair kInner[] = {
    {"norm1", "ln_1"}, {"attention.qkv", "attn.c_attn"}, {"attention.out", "attn.c_proj"},
    {"norm2", "ln_2"}, {"mlp.up", "mlp.c_fc"},           {"mlp.down", "mlp.c_proj"},
};

constexpr Architecture kArchitectures[] = {
    {"GPT2LMHeadModel", HeadKind::causal_lm},
    {"GPT2ForSequenceClassification", HeadKind::classifier},
    {"GPT2Model", HeadKind::none},
};

void read(const ConfigReader& reader, HfConfig& config) {
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

void write(const TransformerSpec& spec, nlohmann::ordered_json& json) {
  json["n_positions"] = spec.max_positions;
  json["n_embd"] = spec.width;
  json["n_layer"] = spec.layers;
  json["n_head"] = spec.heads;
  json["n_inner"] = spec.mlp_width;
  json["activation_function"] = "gelu_new";
  json["layer_norm_epsilon"] = spec.norm_eps;
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) json[key] = 0.0;
}

TransformerSpec preset(const ModelSizes& sizes) {
  TransformerSpec spec = gpt2_spec(sizes.vocab, sizes.layers, sizes.heads, sizes.width, sizes.context, sizes.bias);
  if (sizes.mlp_width != 0) spec.mlp_width = sizes.mlp_width;
  spec.kv_heads = sizes.kv_heads;
  return spec;
}

void read_gguf(const GgufKeys& keys, nlohmann::ordered_json& json) {
  keys.refuse_window();
  json["n_positions"] = keys.whole("context_length");
  json["n_embd"] = keys.whole("embedding_length");
  json["n_layer"] = keys.whole("block_count");
  json["n_head"] = keys.whole("attention.head_count");
  json["n_inner"] = keys.whole("feed_forward_length");
  json["activation_function"] = "gelu_new";
  json["layer_norm_epsilon"] = keys.number("attention.layer_norm_epsilon", 1e-5);
}

void write_gguf(GgufMetadata& metadata, const std::string& prefix, const TransformerSpec& spec) {
  if (spec.attention_scale == 1) throw no_gguf_form("scale_attn_weights false");
  if (spec.activation != Activation::gelu_tanh) throw no_gguf_form("this activation");
  metadata.add_number(prefix + "attention.layer_norm_epsilon", spec.norm_eps);
}

}  // namespace

extern const Family kGpt2 = {
    .name = "gpt2",
    .params = {.prefix = "transformer.",
               .layer = "h.",
               .body = kBody,
               .inner = kInner,
               .heads = kDecoderHeads,
               .layers_transposed = true,
               .always_biased = true},
    .architectures = kArchitectures,
    .read = read,
    .write = write,
    .preset = preset,
    .gguf = {.architecture = "gpt2", .read = read_gguf, .write = write_gguf},
};

}  // namespace gradmill
