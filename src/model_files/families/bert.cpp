// SPDX-License-Identifier: Apache-2.0
// BERT.
#include "model_files/families/encoder.h"

namespace gradmill {
namespace {

// The pooler belongs to the body: its names have the prefix.
constexpr NamePair kBody[] = {
    {"embedding.tokens", "embeddings.word_embeddings"},
    {"embedding.positions", "embeddings.position_embeddings"},
    {"embedding.types", "embeddings.token_type_embeddings"},
    {"embedding.norm", "embeddings.LayerNorm"},
    {"pooler", "pooler.dense"},
};
constexpr NamePair kHeads[] = {
    {"head.transform", "cls.predictions.transform.dense"},
    {"head.norm", "cls.predictions.transform.LayerNorm"},
    {"head.weight", "cls.predictions.decoder.weight"},
    {"head.bias", "cls.predictions.bias"},
    {"classifier", "classifier"},
};

constexpr Architecture kArchitectures[] = {
    {"BertForMaskedLM", HeadKind::masked_lm},
    {"BertForPreTraining", HeadKind::masked_lm},
    {"BertForSequenceClassification", HeadKind::classifier, PoolerKind::tanh, true},
    {"BertModel", HeadKind::none},
};

void read(const ConfigReader& reader, HfConfig& config) {
  TransformerSpec& spec = config.spec;
  read_bert_shape(reader, {}, spec);
  spec.positions = PositionScheme::learned;
  spec.token_types = reader.size("type_vocab_size", 2);
  reader.choice("position_embedding_type", "absolute", {"absolute"});
  read_bert_dropout(reader, "classifier_dropout", config);
}

void write(const TransformerSpec& spec, nlohmann::ordered_json& json) {
  json["max_position_embeddings"] = spec.max_positions;
  json["hidden_size"] = spec.width;
  json["num_hidden_layers"] = spec.layers;
  json["num_attention_heads"] = spec.heads;
  json["intermediate_size"] = spec.mlp_width;
  json["hidden_act"] = "gelu";
  json["layer_norm_eps"] = spec.norm_eps;
  json["type_vocab_size"] = spec.token_types;
  json["hidden_dropout_prob"] = 0.0;
  json["attention_probs_dropout_prob"] = 0.0;
}

TransformerSpec preset(const ModelSizes& sizes) {
  TransformerSpec spec = bert_spec(sizes.vocab, sizes.layers, sizes.heads, sizes.width, sizes.context);
  if (sizes.mlp_width != 0) spec.mlp_width = sizes.mlp_width;
  spec.kv_heads = sizes.kv_heads;
  return spec;
}

}  // namespace

extern const Family kBert = {
    .name = "bert",
    .params = {.prefix = "bert.", .layer = "encoder.layer.", .body = kBody, .inner = kBertInner, .heads = kHeads},
    .architectures = kArchitectures,
    .read = read,
    .write = write,
    .preset = preset,
};

}  // namespace gradmill
