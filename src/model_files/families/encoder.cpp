// SPDX-License-Identifier: Apache-2.0
#include "model_files/families/encoder.h"

#include "model_files/families/layer_keys.h"

namespace gradmill {

void read_bert_shape(const ConfigReader& reader, const BertDefaults& defaults, TransformerSpec& spec) {
  spec.vocab = reader.size("vocab_size", defaults.vocab);
  spec.width = reader.size("hidden_size", defaults.width);
  spec.layers = reader.size("num_hidden_layers", defaults.layers, ConfigReader::kMostLayers);
  spec.heads = reader.size("num_attention_heads", defaults.heads);
  spec.mlp_width = reader.size("intermediate_size", defaults.mlp_width);
  spec.max_positions = reader.size("max_position_embeddings", 512);
  spec.init_std = reader.positive("initializer_range", 0.02);
  spec.norm = NormKind::layer;
  spec.norm_eps = reader.positive("layer_norm_eps", defaults.norm_eps);
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

}  // namespace gradmill
