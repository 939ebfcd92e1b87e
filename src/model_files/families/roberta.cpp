// SPDX-License-Identifier: Apache-2.0
// RoBERTa and XLM-RoBERTa: BERT with one token type, positions that begin after the padding token's, and other heads.
#include "model_files/families/encoder.h"

namespace gradmill {
namespace {

constexpr NamePair kBody[] = {
    {"embedding.tokens", "embeddings.word_embeddings"},
    {"embedding.positions", "embeddings.position_embeddings"},
    {"embedding.types", "embeddings.token_type_embeddings"},
    {"embedding.norm", "embeddings.LayerNorm"},
};
constexpr NamePair kHeads[] = {
    {"head.transform", "lm_head.dense"}, {"head.norm", "lm_head.layer_norm"}, {"head.weight", "lm_head.decoder.weight"},
    {"head.bias", "lm_head.bias"},       {"pooler", "classifier.dense"},      {"classifier", "classifier.out_proj"},
};
constexpr ParamNames kNames = {
    .prefix = "roberta.", .layer = "encoder.layer.", .body = kBody, .inner = kBertInner, .heads = kHeads};

constexpr Architecture kRobertaArchitectures[] = {
    {"RobertaForMaskedLM", HeadKind::masked_lm},
    {"RobertaForSequenceClassification", HeadKind::classifier, PoolerKind::tanh, true},
    {"RobertaModel", HeadKind::none},
};
constexpr Architecture kXlmArchitectures[] = {
    {"XLMRobertaForMaskedLM", HeadKind::masked_lm},
    {"XLMRobertaForSequenceClassification", HeadKind::classifier, PoolerKind::tanh, true},
    {"XLMRobertaModel", HeadKind::none},
};

// The position table has max_position_embeddings rows. Padding tokens have row pad_token_id, the first token the next.
void read_positions(const ConfigReader& reader, TransformerSpec& spec) {
  spec.positions = PositionScheme::learned;
  spec.position_offset = reader.whole("pad_token_id", 1, 0) + 1;
  if (spec.max_positions <= spec.position_offset) {
    throw reader.refusal("max_position_embeddings", fmt::format("more than {}", spec.position_offset));
  }
  spec.max_positions -= spec.position_offset;
}

void read(const ConfigReader& reader, HfConfig& config, int64_t vocab) {
  TransformerSpec& spec = config.spec;
  read_bert_shape(reader, {.vocab = vocab}, spec);
  reader.choice("hidden_act", "gelu", {"gelu", "gelu_python"});  // a masked-LM head always has this one
  read_positions(reader, spec);
  spec.token_types = reader.size("type_vocab_size", 2);
  reader.choice("position_embedding_type", "absolute", {"absolute"});
  read_bert_dropout(reader, "classifier_dropout", config);
}

}  // namespace

extern const Family kRoberta = {
    .name = "roberta",
    .params = kNames,
    .architectures = kRobertaArchitectures,
    .read = [](const ConfigReader& reader, HfConfig& config) { read(reader, config, 50265); },
};

extern const Family kXlmRoberta = {
    .name = "xlm-roberta",
    .params = kNames,
    .architectures = kXlmArchitectures,
    .read = [](const ConfigReader& reader, HfConfig& config) { read(reader, config, 30522); },
};

}  // namespace gradmill
