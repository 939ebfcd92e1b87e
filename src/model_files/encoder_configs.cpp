// SPDX-License-Identifier: Apache-2.0
// BERT, DeBERTa and ModernBERT. Defaults are those of transformers' classes, because files leave out default values.
#include <algorithm>

#include "model_files/family_configs.h"

namespace gradmill {
namespace {

// The sizes that BERT and DeBERTa share.
void read_bert_shape(const ConfigReader& reader, int64_t vocab, int64_t width, int64_t layers, int64_t heads,
                     int64_t mlp_width, TransformerSpec& spec) {
  spec.vocab = reader.size("vocab_size", vocab);
  spec.width = reader.size("hidden_size", width);
  spec.layers = reader.size("num_hidden_layers", layers, ConfigReader::kMostLayers);
  spec.heads = reader.size("num_attention_heads", heads);
  spec.mlp_width = reader.size("intermediate_size", mlp_width);
  spec.max_positions = reader.size("max_position_embeddings", 512);
  spec.init_std = reader.positive("initializer_range", 0.02);
  spec.norm = NormKind::layer;
  spec.norm_placement = NormPlacement::after;
  spec.final_norm = false;
  spec.embedding_norm = true;
  spec.activation = read_gelu(reader, "hidden_act", "gelu", false);
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = true;
  spec.causal = false;
  spec.pooling = Pooling::first;
  reader.require_flag("tie_word_embeddings", true, true);
  reader.require_flag("is_decoder", false, false);
  reader.require_flag("add_cross_attention", false, false);
}

void read_bert_dropout(const ConfigReader& reader, const char* classifier_key, HfConfig& config) {
  const float hidden = reader.probability("hidden_dropout_prob", 0.1);
  config.dropout = {.hidden = hidden,
                    .embedding = hidden,
                    .attention = reader.probability("attention_probs_dropout_prob", 0.1),
                    .classifier = reader.probability(classifier_key, hidden)};
}

// "p2c|c2p", or a list of such names.
void read_position_terms(const ConfigReader& reader, DisentangledSpec& spec) {
  const char* const key = "pos_att_type";
  const nlohmann::json& value = reader.value(key);
  std::string joined;
  if (value.is_array()) {
    for (const nlohmann::json& item : value) {
      if (!item.is_string()) throw reader.refusal(key, "c2p and p2c");
      joined += item.get<std::string>() + "|";
    }
  } else {
    joined = reader.text(key, "") + "|";
  }
  spec.content_to_position = spec.position_to_content = false;
  for (size_t begin = 0, end; (end = joined.find('|', begin)) != std::string::npos; begin = end + 1) {
    const std::string name = joined.substr(begin, end - begin);
    if (name == "c2p") {
      spec.content_to_position = true;
    } else if (name == "p2c") {
      spec.position_to_content = true;
    } else if (!name.empty()) {
      throw reader.refusal(key, "c2p and p2c");
    }
  }
  if (!spec.content_to_position && !spec.position_to_content) throw reader.refusal(key, "c2p, p2c or both");
}

void read_disentangled(const ConfigReader& reader, TransformerSpec& spec) {
  reader.require_flag("relative_attention", true, false);
  reader.require_flag("position_biased_input", false, true);
  DisentangledSpec& attention = spec.disentangled;
  attention.max_distance = reader.whole("max_relative_positions", -1, -1);
  if (attention.max_distance < 1) attention.max_distance = spec.max_positions;
  const int64_t buckets = reader.whole("position_buckets", -1, -1);
  attention.log_buckets = buckets > 0;
  attention.buckets = attention.log_buckets ? buckets : attention.max_distance;
  if (attention.log_buckets && (buckets < 2 || attention.max_distance - 1 <= buckets / 2)) {
    throw reader.refusal("position_buckets", "2 to less than twice max_relative_positions");
  }
  attention.share_keys = reader.flag("share_att_key", false);
  attention.norm_table = reader.choice("norm_rel_ebd", "none", {"none", "layer_norm"}) == 1;
  read_position_terms(reader, attention);
}

}  // namespace

void read_bert(const ConfigReader& reader, HfConfig& config) {
  TransformerSpec& spec = config.spec;
  read_bert_shape(reader, 30522, 768, 12, 12, 3072, spec);
  spec.norm_eps = reader.positive("layer_norm_eps", 1e-12);
  spec.positions = PositionScheme::learned;
  spec.token_types = reader.size("type_vocab_size", 2);
  reader.choice("position_embedding_type", "absolute", {"absolute"});
  read_bert_dropout(reader, "classifier_dropout", config);
}

void read_deberta(const ConfigReader& reader, HfConfig& config) {
  TransformerSpec& spec = config.spec;
  read_bert_shape(reader, 128100, 1536, 24, 24, 6144, spec);
  spec.norm_eps = reader.positive("layer_norm_eps", 1e-7);
  spec.positions = PositionScheme::none;
  spec.token_types = reader.whole("type_vocab_size", 0, 0);
  read_disentangled(reader, spec);
  if (reader.whole("conv_kernel_size", 0, 0) > 0) throw reader.refusal("conv_kernel_size", "0");
  const auto same = [&](const char* key, int64_t value) {
    if (reader.size(key, value) != value) throw reader.refusal(key, fmt::format("{}, like the other sizes", value));
  };
  same("embedding_size", spec.width);
  same("pooler_hidden_size", spec.width);
  if (spec.width % spec.heads == 0) same("attention_head_size", spec.width / spec.heads);
  reader.choice("pooler_hidden_act", "gelu", {"gelu"});
  reader.require_flag("legacy", true, true);  // selects the form of the masked-LM head
  read_bert_dropout(reader, "cls_dropout", config);
  config.dropout.pooler = reader.probability("pooler_dropout", 0);
}

void read_modernbert(const ConfigReader& reader, HfConfig& config) {
  TransformerSpec& spec = config.spec;
  spec.vocab = reader.size("vocab_size", 50368);
  spec.width = reader.size("hidden_size", 768);
  spec.mlp_width = reader.size("intermediate_size", 1152);
  spec.layers = reader.size("num_hidden_layers", 22, ConfigReader::kMostLayers);
  spec.heads = reader.size("num_attention_heads", 12);
  spec.max_positions = reader.size("max_position_embeddings", 8192);
  spec.init_std = reader.positive("initializer_range", 0.02);
  spec.norm = NormKind::layer;
  spec.norm_eps = reader.positive("norm_eps", 1e-5);
  spec.norm_bias = reader.flag("norm_bias", false);
  spec.first_norm = false;
  spec.embedding_norm = true;
  spec.activation = read_gelu(reader, "hidden_activation", "gelu", true);
  spec.qkv_bias = spec.out_bias = reader.flag("attention_bias", false);
  spec.mlp_bias = reader.flag("mlp_bias", false);
  spec.causal = false;
  reader.require_flag("tie_word_embeddings", true, true);
  // transformers would also scale the layers with a window.
  reader.require_absent("rope_scaling", "rope_parameters, by type of layer");
  read_rope(reader,
            {.theta = "global_rope_theta",
             .local_theta = "local_rope_theta",
             .theta_default = 160000,
             .local_theta_default = 10000,
             .by_layer_type = true},
            spec);
  const int64_t every = reader.size("global_attn_every_n_layers", 3, ConfigReader::kMostLayers);
  std::vector<bool> local;
  for (int64_t layer = 0; layer < spec.layers; ++layer) local.push_back(layer % every != 0);
  spec.local_layers = read_layer_types(reader, spec.layers, std::move(local));
  // Half of the window lies on each side, so an odd number would be rounded down.
  spec.window = reader.size("local_attention", 128) / 2 * 2;
  if (spec.window == 0) throw reader.refusal("local_attention", "a number of at least 2");
  spec.pooling = reader.choice("classifier_pooling", "cls", {"cls", "mean"}) == 0 ? Pooling::first : Pooling::mean;
  reader.choice("classifier_activation", "gelu", {"gelu"});
  spec.mlm_transform_bias = reader.flag("classifier_bias", false);  // the bias of the dense layer before either head
  spec.mlm_bias = reader.flag("decoder_bias", true);
  config.dropout = {.hidden = reader.probability("mlp_dropout", 0),
                    .embedding = reader.probability("embedding_dropout", 0),
                    .attention = reader.probability("attention_dropout", 0),
                    .classifier = reader.probability("classifier_dropout", 0)};
}

}  // namespace gradmill
