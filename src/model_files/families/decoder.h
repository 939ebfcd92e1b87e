// SPDX-License-Identifier: Apache-2.0
// The settings that Llama and later decoders share.
#pragma once

#include "model_files/config_reader.h"
#include "model_files/families/family.h"
#include "model_files/hf_config.h"

namespace gradmill {

inline constexpr NamePair kDecoderHeads[] = {{"head", "lm_head"}, {"classifier", "score"}};
inline constexpr NamePair kLlamaBody[] = {{"embedding.tokens", "embed_tokens"}, {"norm", "norm"}};
inline constexpr NamePair kLlamaInner[] = {
    {"norm1", "input_layernorm"},
    {"attention.qkv/q", "self_attn.q_proj"},
    {"attention.qkv/k", "self_attn.k_proj"},
    {"attention.qkv/v", "self_attn.v_proj"},
    {"attention.q_norm", "self_attn.q_norm"},
    {"attention.k_norm", "self_attn.k_norm"},
    {"attention.out", "self_attn.o_proj"},
    {"norm2", "post_attention_layernorm"},
    {"mlp.up/gate", "mlp.gate_proj"},
    {"mlp.up/up", "mlp.up_proj"},
    {"mlp.down", "mlp.down_proj"},
};
inline constexpr ParamNames kLlamaNames = {
    .prefix = "model.", .layer = "layers.", .body = kLlamaBody, .inner = kLlamaInner, .heads = kDecoderHeads};

// The defaults of transformers' classes, because files leave out default values.
struct LlamaDefaults {
  int64_t vocab = 32000, width = 4096, mlp_width = 11008, layers = 32, heads = 32, positions = 2048;
  int64_t kv_heads = 0;  // 0: as many as heads
  double norm_eps = 1e-6;
};
// Sizes and the norms' epsilon.
void read_llama_shape(const ConfigReader& reader, const LlamaDefaults& defaults, TransformerSpec& spec);
// Also: grouped queries, SwiGLU, rotary positions, the head's tie and attention's dropout. No biases.
void read_llama_like(const ConfigReader& reader, const LlamaDefaults& defaults, HfConfig& config);
void write_llama_shape(const TransformerSpec& spec, nlohmann::ordered_json& json);
// Llama's layers, without norms of queries and keys.
TransformerSpec llama_preset(const ModelSizes& sizes);

}  // namespace gradmill
