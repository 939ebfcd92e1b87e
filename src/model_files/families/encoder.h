// SPDX-License-Identifier: Apache-2.0
// The settings that BERT and the encoders after it share.
#pragma once

#include "model_files/config_reader.h"
#include "model_files/families/family.h"
#include "model_files/hf_config.h"

namespace gradmill {

inline constexpr NamePair kBertInner[] = {
    {"attention.qkv/q", "attention.self.query"},
    {"attention.qkv/k", "attention.self.key"},
    {"attention.qkv/v", "attention.self.value"},
    {"attention.out", "attention.output.dense"},
    {"norm1", "attention.output.LayerNorm"},
    {"mlp.up", "intermediate.dense"},
    {"mlp.down", "output.dense"},
    {"norm2", "output.LayerNorm"},
};

// The defaults of transformers' classes, because files leave out default values.
struct BertDefaults {
  int64_t vocab = 30522, width = 768, layers = 12, heads = 12, mlp_width = 3072;
  double norm_eps = 1e-12;
};
// Sizes, and layers whose norms follow the sums.
void read_bert_shape(const ConfigReader& reader, const BertDefaults& defaults, TransformerSpec& spec);
// `classifier_key` names the dropout before a classifier.
void read_bert_dropout(const ConfigReader& reader, const char* classifier_key, HfConfig& config);

}  // namespace gradmill
