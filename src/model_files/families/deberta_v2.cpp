// SPDX-License-Identifier: Apache-2.0
// DeBERTa, versions 2 and 3.
#include "model_files/families/encoder.h"

namespace gradmill {
namespace {

constexpr NamePair kBody[] = {
    {"embedding.tokens", "embeddings.word_embeddings"},
    {"embedding.positions", "embeddings.position_embeddings"},
    {"embedding.types", "embeddings.token_type_embeddings"},
    {"embedding.norm", "embeddings.LayerNorm"},
    {"relative.table", "encoder.rel_embeddings"},
    {"relative.norm", "encoder.LayerNorm"},
};
constexpr NamePair kInner[] = {
    {"attention.qkv/q", "attention.self.query_proj"},
    {"attention.qkv/k", "attention.self.key_proj"},
    {"attention.qkv/v", "attention.self.value_proj"},
    {"attention.pos_key", "attention.self.pos_key_proj"},
    {"attention.pos_query", "attention.self.pos_query_proj"},
    {"attention.out", "attention.output.dense"},
    {"norm1", "attention.output.LayerNorm"},
    {"mlp.up", "intermediate.dense"},
    {"mlp.down", "output.dense"},
    {"norm2", "output.LayerNorm"},
};
constexpr NamePair kHeads[] = {
    {"pooler", "pooler.dense"},
    {"head.transform", "cls.predictions.transform.dense"},
    {"head.norm", "cls.predictions.transform.LayerNorm"},
    {"head.weight", "cls.predictions.decoder.weight"},
    {"head.bias", "cls.predictions.bias"},
    {"classifier", "classifier"},
};

constexpr Architecture kArchitectures[] = {
    {"DebertaV2ForMaskedLM", HeadKind::masked_lm},
    {"DebertaV2ForSequenceClassification", HeadKind::classifier, PoolerKind::gelu, true},
    {"DebertaV2Model", HeadKind::none},
};

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

void read(const ConfigReader& reader, HfConfig& config) {
  TransformerSpec& spec = config.spec;
  read_bert_shape(
      reader, {.vocab = 128100, .width = 1536, .layers = 24, .heads = 24, .mlp_width = 6144, .norm_eps = 1e-7}, spec);
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

}  // namespace

extern const Family kDebertaV2 = {
    .name = "deberta-v2",
    .params = {.prefix = "deberta.", .layer = "encoder.layer.", .body = kBody, .inner = kInner, .heads = kHeads},
    .architectures = kArchitectures,
    .read = read,
};

}  // namespace gradmill
