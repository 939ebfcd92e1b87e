// SPDX-License-Identifier: Apache-2.0
// ModernBERT.
#include "model_files/config_reader.h"
#include "model_files/families/family.h"
#include "model_files/families/layer_keys.h"
#include "model_files/families/rope_config.h"
#include "model_files/hf_config.h"

namespace gradmill {
namespace {

constexpr NamePair kBody[] = {
    {"embedding.tokens", "embeddings.tok_embeddings"}, {"embedding.norm", "embeddings.norm"}, {"norm", "final_norm"}};
constexpr NamePair kInner[] = {
    {"norm1", "attn_norm"}, {"attention.qkv", "attn.Wqkv"}, {"attention.out", "attn.Wo"},
    {"norm2", "mlp_norm"},  {"mlp.up", "mlp.Wi"},           {"mlp.down", "mlp.Wo"},
};
constexpr NamePair kHeads[] = {
    {"head.transform", "head.dense"}, {"head.norm", "head.norm"}, {"pooler", "head.dense"},
    {"pooler.norm", "head.norm"},     {"head", "decoder"},        {"classifier", "classifier"},
};

constexpr Architecture kArchitectures[] = {
    {"ModernBertForMaskedLM", HeadKind::masked_lm},
    {"ModernBertForSequenceClassification", HeadKind::classifier, PoolerKind::gelu_norm, true},
    {"ModernBertModel", HeadKind::none},
};

void read(const ConfigReader& reader, HfConfig& config) {
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

}  // namespace

extern const Family kModernBert = {
    .name = "modernbert",
    .params = {.prefix = "model.", .layer = "layers.", .body = kBody, .inner = kInner, .heads = kHeads},
    .architectures = kArchitectures,
    .read = read,
};

}  // namespace gradmill
