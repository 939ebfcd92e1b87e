// SPDX-License-Identifier: Apache-2.0
// OLMo 2: norms on the branches' outputs, and one over all heads of queries or keys.
#include "model_files/families/decoder.h"
#include "model_files/gguf/gguf_decoder.h"

namespace gradmill {
namespace {

constexpr NamePair kInner[] = {
    {"attention.qkv/q", "self_attn.q_proj"},
    {"attention.qkv/k", "self_attn.k_proj"},
    {"attention.qkv/v", "self_attn.v_proj"},
    {"attention.q_norm", "self_attn.q_norm"},
    {"attention.k_norm", "self_attn.k_norm"},
    {"attention.out", "self_attn.o_proj"},
    {"norm1_out", "post_attention_layernorm"},
    {"mlp.up/gate", "mlp.gate_proj"},
    {"mlp.up/up", "mlp.up_proj"},
    {"mlp.down", "mlp.down_proj"},
    {"norm2_out", "post_feedforward_layernorm"},
};

constexpr Architecture kArchitectures[] = {
    {"Olmo2ForCausalLM", HeadKind::causal_lm},
    {"Olmo2ForSequenceClassification", HeadKind::classifier},
    {"Olmo2Model", HeadKind::none},
};

void read(const ConfigReader& reader, HfConfig& config) {
  read_llama_like(reader, {.vocab = 50304, .norm_eps = 1e-5}, config);
  TransformerSpec& spec = config.spec;
  spec.qkv_bias = spec.out_bias = reader.flag("attention_bias", false);
  spec.norm_placement = NormPlacement::output;
  spec.qk_norm = spec.qk_norm_all_heads = true;
}

void write_gguf(GgufMetadata& metadata, const std::string& prefix, const TransformerSpec& spec) {
  if (spec.qkv_bias) throw no_gguf_form("attention_bias in this architecture");
  write_gguf_llama(metadata, prefix, spec);
}

}  // namespace

extern const Family kOlmo2 = {
    .name = "olmo2",
    .params = {.prefix = "model.", .layer = "layers.", .body = kLlamaBody, .inner = kInner, .heads = kDecoderHeads},
    .architectures = kArchitectures,
    .read = read,
    .gguf = {.architecture = "olmo2", .read = read_gguf_llama, .write = write_gguf},
};

}  // namespace gradmill
