// SPDX-License-Identifier: Apache-2.0
#include "model_files/model_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "model_files/families/registry.h"

namespace gradmill::test {
namespace {

using nlohmann::json;

const json kGpt2 = json::parse(R"({"model_type":"gpt2","architectures":["GPT2LMHeadModel"],"vocab_size":50,
  "n_positions":64,"n_embd":32,"n_layer":2,"n_head":4,"resid_pdrop":0.1,"embd_pdrop":0.2,"attn_pdrop":0.3})");
const json kLlama = json::parse(R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"vocab_size":50,
  "hidden_size":32,"intermediate_size":48,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,
  "max_position_embeddings":128,"rms_norm_eps":1e-5,"rope_theta":500000.0,"eos_token_id":[2,3],"dtype":"bfloat16"})");
const json kGemma = json::parse(R"({"model_type":"gemma3_text","architectures":["Gemma3ForCausalLM"],"vocab_size":50,
  "hidden_size":48,"intermediate_size":64,"num_hidden_layers":7,"num_attention_heads":4,"num_key_value_heads":1,
  "head_dim":16,"max_position_embeddings":256,"sliding_window":32,"query_pre_attn_scalar":64})");
const json kBert = json::parse(R"({"model_type":"bert","architectures":["BertForSequenceClassification"],
  "vocab_size":50,"hidden_size":32,"num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":64,
  "max_position_embeddings":40,"id2label":{"0":"no","1":"maybe","2":"yes"},"hidden_dropout_prob":0.2})");
const json kDeberta = json::parse(R"({"model_type":"deberta-v2","vocab_size":50,"hidden_size":32,
  "num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":64,"max_position_embeddings":512,
  "type_vocab_size":0,"relative_attention":true,"max_relative_positions":-1,"position_buckets":256,
  "norm_rel_ebd":"layer_norm","share_att_key":true,"pos_att_type":"p2c|c2p","position_biased_input":false,
  "pooler_dropout":0,"pooler_hidden_act":"gelu","layer_norm_eps":1e-7})");
const json kModernBert = json::parse(R"({"model_type":"modernbert","architectures":["ModernBertForMaskedLM"],
  "vocab_size":50,"hidden_size":32,"intermediate_size":48,"num_hidden_layers":5,"num_attention_heads":4})");

json with(json base, const std::string& changes) {
  base.merge_patch(json::parse(changes));
  return base;
}
HfConfig read(const json& config) { return read_model_config(config.dump(), "m/config.json"); }
TransformerSpec spec_of(const json& config) { return read(config).spec; }

std::string refusal(const std::string& text) {
  try {
    read_model_config(text, "m/config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    return error.what();
  }
  return "accepted";
}

TEST(HfConfig, ReadsGpt2) {
  const HfConfig config = read(kGpt2);
  EXPECT_EQ(config.family, &family_named("gpt2"));
  const TransformerSpec& spec = config.spec;
  EXPECT_EQ(spec.mlp_width, 128);
  EXPECT_EQ(spec.positions, PositionScheme::learned);
  EXPECT_EQ(spec.activation, Activation::gelu_tanh);
  EXPECT_TRUE(spec.tied && spec.qkv_bias && spec.causal);
  EXPECT_EQ(spec.head, HeadKind::causal_lm);
  EXPECT_FLOAT_EQ(config.dropout.hidden, 0.1f);
  EXPECT_FLOAT_EQ(config.dropout.embedding, 0.2f);
  EXPECT_FLOAT_EQ(config.dropout.attention, 0.3f);
  EXPECT_EQ(spec_of(with(kGpt2, R"({"scale_attn_weights":false})")).attention_scale, 1);
  EXPECT_EQ(spec_of(with(kGpt2, R"({"n_inner":96,"activation_function":"gelu"})")).activation, Activation::gelu_erf);
}

TEST(HfConfig, ReadsLlamaAndItsRelatives) {
  const HfConfig config = read(kLlama);
  EXPECT_EQ(config.spec.kv_heads, 2);
  EXPECT_EQ(config.spec.head_dim, 8);
  EXPECT_EQ(config.spec.rope_theta, 500000.0f);
  EXPECT_FALSE(config.spec.tied);
  EXPECT_EQ(config.eos_tokens, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(config.dtype, "bfloat16");
  EXPECT_TRUE(spec_of(with(kLlama, R"({"attention_bias":true,"mlp_bias":true})")).out_bias);

  const TransformerSpec qwen2 = spec_of(with(kLlama, R"({"model_type":"qwen2","architectures":["Qwen2ForCausalLM"]})"));
  EXPECT_TRUE(qwen2.qkv_bias && !qwen2.out_bias && !qwen2.qk_norm);
  const json qwen3 = with(kLlama, R"({"model_type":"qwen3","architectures":["Qwen3ForCausalLM"]})");
  EXPECT_TRUE(spec_of(qwen3).qk_norm && !spec_of(qwen3).qkv_bias);
  EXPECT_EQ(spec_of(qwen3).head_dim, 128);
  const json sliding = with(qwen3, R"({"use_sliding_window":true,"sliding_window":16,"max_window_layers":1})");
  EXPECT_EQ(spec_of(sliding).local_layers, (std::vector<bool>{false, true}));
  EXPECT_EQ(spec_of(sliding).local_rope_theta, spec_of(sliding).rope_theta);
  EXPECT_EQ(spec_of(with(sliding, R"({"max_window_layers":0})")).local_layers.size(), 0u);
  EXPECT_EQ(spec_of(with(sliding, R"({"max_window_layers":0})")).window, 16);
}

TEST(HfConfig, ReadsMistralsWindow) {
  json config = with(kLlama, R"({"model_type":"mistral","architectures":["MistralForCausalLM"]})");
  EXPECT_EQ(spec_of(config).window, 4096);
  EXPECT_EQ(spec_of(with(config, R"({"sliding_window":16})")).window, 16);
  EXPECT_TRUE(spec_of(with(config, R"({"sliding_window":16})")).local_layers.empty());
  EXPECT_EQ(spec_of(with(config, R"({"num_key_value_heads":null,"num_attention_heads":8})")).kv_heads, 8);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(spec_of(config).window, 0);
}

TEST(HfConfig, ReadsOlmo2) {
  const json config =
      with(kLlama, R"({"model_type":"olmo2","architectures":["Olmo2ForCausalLM"],"rms_norm_eps":null})");
  const TransformerSpec spec = spec_of(config);
  EXPECT_EQ(spec.norm_placement, NormPlacement::output);
  EXPECT_TRUE(spec.qk_norm && spec.qk_norm_all_heads && !spec.qkv_bias && !spec.tied);
  EXPECT_EQ(spec.norm_eps, 1e-5f);
  EXPECT_TRUE(spec_of(with(config, R"({"attention_bias":true})")).out_bias);
}

TEST(HfConfig, ReadsEveryRopeSpelling) {
  const TransformerSpec llama3 = spec_of(with(kLlama, R"({"rope_scaling":{"rope_type":"llama3","factor":8.0,
    "low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":64}})"));
  EXPECT_EQ(llama3.rope_scaling.kind, RopeScalingKind::llama3);
  EXPECT_EQ(llama3.rope_scaling.factor, 8);
  EXPECT_EQ(llama3.rope_scaling.original_context, 64);
  EXPECT_EQ(llama3.rope_theta, 500000.0f);
  // Version 5 has theta inside; 'type' is an older name.
  const TransformerSpec yarn = spec_of(with(kLlama, R"({"rope_theta":null,"rope_parameters":{"type":"yarn",
    "rope_theta":1000000.0,"factor":4.0,"original_max_position_embeddings":32,"beta_fast":16}})"));
  EXPECT_EQ(yarn.rope_scaling.kind, RopeScalingKind::yarn);
  EXPECT_EQ(yarn.rope_theta, 1e6f);
  EXPECT_EQ(yarn.rope_scaling.beta_fast, 16);
  EXPECT_EQ(spec_of(with(kLlama, R"({"rope_scaling":{"type":"linear","factor":2}})")).rope_scaling.kind,
            RopeScalingKind::linear);
  EXPECT_EQ(spec_of(with(kLlama, R"({"rope_scaling":{"type":"dynamic","factor":2}})")).rope_scaling.original_context,
            128);
  const TransformerSpec gemma = spec_of(with(kGemma, R"({"rope_parameters":{"full_attention":{"rope_type":"linear",
    "factor":8.0,"rope_theta":2000000.0},"sliding_attention":{"rope_type":"default","rope_theta":20000.0}}})"));
  EXPECT_EQ(gemma.rope_theta, 2e6f);
  EXPECT_EQ(gemma.local_rope_theta, 2e4f);
  EXPECT_EQ(gemma.rope_scaling.factor, 8);
}

TEST(HfConfig, ReadsGemmaAlsoInsideAMultimodalModel) {
  const TransformerSpec spec = spec_of(kGemma);
  EXPECT_EQ(spec.norm_placement, NormPlacement::around);
  EXPECT_EQ(spec.norm_offset, 1);
  EXPECT_EQ(spec.window, 32);
  EXPECT_EQ(spec.local_layers, (std::vector<bool>{true, true, true, true, true, false, true}));
  EXPECT_EQ(spec.rope_theta, 1e6f);
  EXPECT_EQ(spec.local_rope_theta, 1e4f);
  EXPECT_FLOAT_EQ(spec.attention_scale, 0.125f);
  EXPECT_FLOAT_EQ(spec.embedding_scale, std::sqrt(48.0f));
  EXPECT_EQ(spec.activation, Activation::geglu_tanh);
  EXPECT_TRUE(spec.tied && spec.qk_norm);
  json text = kGemma;
  text.erase("architectures");
  const json whole = {{"model_type", "gemma3"},
                      {"architectures", {"Gemma3ForConditionalGeneration"}},
                      {"text_config", text},
                      {"vision_config", {{"hidden_size", 8}}},
                      {"eos_token_id", {1, 106}}};
  const HfConfig nested = read(whole);
  EXPECT_EQ(nested.spec.width, 48);
  EXPECT_EQ(nested.eos_tokens, (std::vector<int64_t>{1, 106}));
  const json written = json::parse(write_model_config(nested, DType::bf16));
  EXPECT_EQ(written["model_type"], "gemma3_text");
  EXPECT_EQ(written["architectures"], json({"Gemma3ForCausalLM"}));
  EXPECT_EQ(spec_of(written).width, 48);
}

TEST(HfConfig, ReadsEncoders) {
  const HfConfig bert = read(kBert);
  EXPECT_EQ(bert.labels, (std::vector<std::string>{"no", "maybe", "yes"}));
  EXPECT_EQ(bert.spec.labels, 3);
  EXPECT_EQ(bert.spec.pooler, PoolerKind::tanh);
  EXPECT_TRUE(bert.spec.classifier_bias && bert.spec.embedding_norm && !bert.spec.final_norm && !bert.spec.causal);
  EXPECT_EQ(bert.spec.token_types, 2);
  EXPECT_FLOAT_EQ(bert.dropout.classifier, 0.2f);
  EXPECT_FLOAT_EQ(bert.spec.norm_eps, 1e-12f);

  const HfConfig deberta = read(kDeberta);
  EXPECT_EQ(deberta.spec.head, HeadKind::none);  // the file names no class
  EXPECT_EQ(deberta.spec.disentangled.buckets, 256);
  EXPECT_EQ(deberta.spec.disentangled.max_distance, 512);
  EXPECT_TRUE(deberta.spec.disentangled.share_keys && deberta.spec.disentangled.norm_table);
  EXPECT_EQ(deberta.spec.positions, PositionScheme::none);
  const DisentangledSpec one =
      spec_of(with(kDeberta, R"({"pos_att_type":["c2p"],"position_buckets":-1})")).disentangled;
  EXPECT_TRUE(one.content_to_position && !one.position_to_content && !one.log_buckets);
  EXPECT_EQ(one.buckets, 512);

  const HfConfig modern = read(kModernBert);
  EXPECT_EQ(modern.spec.local_layers, (std::vector<bool>{false, true, true, false, true}));
  EXPECT_EQ(modern.spec.window, 128);
  EXPECT_EQ(modern.spec.rope_theta, 160000.0f);
  EXPECT_TRUE(!modern.spec.first_norm && !modern.spec.norm_bias && modern.spec.mlm_bias);
  EXPECT_EQ(modern.spec.activation, Activation::geglu_erf);
  const json classifier = with(kModernBert, R"({"architectures":["ModernBertForSequenceClassification"],
    "classifier_pooling":"mean"})");
  EXPECT_EQ(spec_of(classifier).pooling, Pooling::mean);
  EXPECT_EQ(read(classifier).labels, (std::vector<std::string>{"LABEL_0", "LABEL_1"}));
}

TEST(HfConfig, ReadsRobertaWhosePositionsBeginLater) {
  const json config = with(kBert, R"({"model_type":"roberta","architectures":["RobertaForSequenceClassification"],
    "type_vocab_size":1,"max_position_embeddings":514,"pad_token_id":1})");
  const TransformerSpec spec = spec_of(config);
  EXPECT_EQ(spec.position_offset, 2);
  EXPECT_EQ(spec.max_positions, 512);
  EXPECT_EQ(spec.token_types, 1);
  EXPECT_EQ(spec.pooler, PoolerKind::tanh);
  EXPECT_EQ(json::parse(write_model_config(read(config), DType::fp32))["max_position_embeddings"], 514);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "max_position_embeddings is 2",
                      refusal(with(config, R"({"max_position_embeddings":2})").dump()));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "hidden_act", refusal(with(config, R"({"hidden_act":"gelu_new"})").dump()));
  const json other = with(config, R"({"model_type":"xlm-roberta","architectures":["XLMRobertaForMaskedLM"]})");
  HfConfig masked = read(other);
  EXPECT_EQ(masked.spec.position_offset, 2);
  set_head(masked, HeadKind::classifier, {"no", "yes"});
  EXPECT_EQ(masked.architecture, "XLMRobertaForSequenceClassification");
}

TEST(HfConfig, RefusesWhatChangesTheMaths) {
  const auto expect = [](const json& base, const std::string& change, const std::string& key) {
    const std::string message = refusal(with(base, change).dump());
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "m/config.json", message) << change;
    EXPECT_PRED_FORMAT2(testing::IsSubstring, key, message) << change;
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "supported", message) << change;
  };
  expect(kGpt2, R"({"model_type":"mamba"})", "model_type is 'mamba'");
  expect(kGpt2, R"({"architectures":["GPT2ForTokenClassification"]})", "architectures");
  expect(kGpt2, R"({"activation_function":"relu"})", "activation_function is 'relu'");
  expect(kGpt2, R"({"scale_attn_by_inverse_layer_idx":true})", "scale_attn_by_inverse_layer_idx is true");
  expect(kGpt2, R"({"add_cross_attention":true})", "add_cross_attention");
  expect(kGpt2, R"({"n_layer":0})", "n_layer is 0");
  expect(kGpt2, R"({"n_embd":32.5})", "n_embd");
  expect(kGpt2, R"({"n_embd":true})", "n_embd");
  expect(kGpt2, R"({"n_layer":1000000000})", "n_layer");
  expect(kGpt2, R"({"attn_pdrop":1.0})", "attn_pdrop");
  expect(kLlama, R"({"hidden_act":"relu"})", "hidden_act is 'relu'");
  expect(kLlama, R"({"rope_scaling":{"rope_type":"longrope","factor":2}})", "rope_type is 'longrope'");
  expect(kLlama, R"({"rope_scaling":{"rope_type":"linear"}})", "factor");
  expect(kLlama, R"({"rope_scaling":{"rope_type":"llama3","factor":8}})", "low_freq_factor");
  expect(kLlama, R"({"rope_scaling":{"rope_type":"yarn","factor":8,"mscale":1}})", "mscale");
  expect(kLlama, R"({"rope_scaling":[1]})", "rope_scaling");
  expect(kLlama, R"({"rope_scaling":{"full_attention":{"rope_type":"default"}}})", "rope_scaling");
  expect(kLlama, R"({"partial_rotary_factor":0.5})", "partial_rotary_factor");
  expect(kLlama, R"({"rope_theta":0})", "rope_theta");
  expect(kLlama, R"({"quantization_config":{"bits":4}})", "quantization_config");
  expect(kGemma, R"({"use_bidirectional_attention":true})", "use_bidirectional_attention");
  expect(kGemma, R"({"layer_types":["full_attention"]})", "layer_types");
  expect(kBert, R"({"position_embedding_type":"relative_key"})", "position_embedding_type is 'relative_key'");
  expect(kBert, R"({"is_decoder":true})", "is_decoder");
  expect(kBert, R"({"pruned_heads":{"0":[1]}})", "pruned_heads");
  expect(kBert, R"({"id2label":{"0":"a","2":"b","1":null}})", "id2label");
  expect(kBert, R"({"problem_type":"ranking"})", "problem_type");
  expect(kDeberta, R"({"conv_kernel_size":3})", "conv_kernel_size is 3");
  expect(kDeberta, R"({"pos_att_type":"p2p"})", "pos_att_type");
  expect(kDeberta, R"({"relative_attention":null})", "relative_attention is not given");
  expect(kDeberta, R"({"embedding_size":16})", "embedding_size");
  expect(kDeberta, R"({"legacy":false})", "legacy");
  expect(kModernBert, R"({"tie_word_embeddings":false})", "tie_word_embeddings");
  expect(kModernBert, R"({"local_attention":1})", "local_attention");
  expect(kModernBert, R"({"rope_scaling":{"rope_type":"linear","factor":2}})", "rope_scaling");
  json no_window = kGemma;
  no_window["sliding_window"] = nullptr;
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "sliding_window", refusal(no_window.dump()));
}

TEST(HfConfig, RefusesBrokenJsonAndSizesThatDoNotFit) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "m/config.json", refusal("{"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "not a JSON object", refusal("[]"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "twice", refusal(R"({"model_type":"gpt2","model_type":"llama"})"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "not a multiple", refusal(with(kGpt2, R"({"n_head":5})").dump()));
}

// A model that is trained from scratch has a config.json that means the same model.
TEST(HfConfig, PresetsReadAsTheyAreWritten) {
  for (const char* style : {"gpt2", "llama", "qwen2", "qwen3", "bert"}) {
    const Family& family = family_named(style);
    TransformerSpec spec = family.preset({.vocab = 50, .layers = 2, .heads = 4, .width = 32, .context = 64});
    spec.tied = std::string(style) != "llama";
    spec.complete();
    HfConfig config = new_model_config(family, spec);
    config.eos_tokens = {7};
    const HfConfig same = read_model_config(write_model_config(config, DType::fp32), style);
    EXPECT_EQ(same.spec, config.spec) << style;
    EXPECT_EQ(same.architecture, config.architecture) << style;
    EXPECT_EQ(same.eos_tokens, config.eos_tokens) << style;
    set_head(config, HeadKind::classifier, {"no", "yes"});
    const HfConfig classifier = read_model_config(write_model_config(config, DType::fp32), style);
    EXPECT_EQ(classifier.spec, config.spec) << style;
    EXPECT_EQ(classifier.labels, config.labels) << style;
  }
}

TEST(HfConfig, OtherHeads) {
  HfConfig config = read(kDeberta);
  set_head(config, HeadKind::classifier, {"a", "b"});
  EXPECT_EQ(config.architecture, "DebertaV2ForSequenceClassification");
  EXPECT_EQ(config.spec.pooler, PoolerKind::gelu);
  const json written = json::parse(write_model_config(config, DType::fp32));
  EXPECT_EQ(written["architectures"], json({"DebertaV2ForSequenceClassification"}));
  EXPECT_EQ(written["id2label"], json({{"0", "a"}, {"1", "b"}}));
  EXPECT_EQ(written["label2id"], json({{"a", 0}, {"b", 1}}));
  EXPECT_EQ(written["torch_dtype"], "float32");
  EXPECT_EQ(written["dtype"], "float32");
  EXPECT_EQ(written["position_buckets"], 256);
  EXPECT_EQ(read(written).labels, config.labels);
  EXPECT_THROW(set_head(config, HeadKind::causal_lm), Error);
  EXPECT_THROW(set_head(config, HeadKind::classifier), Error);
}

}  // namespace
}  // namespace gradmill::test
