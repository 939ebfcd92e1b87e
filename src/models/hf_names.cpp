// SPDX-License-Identifier: Apache-2.0
#include "models/hf_names.h"

#include <span>
#include <utility>

namespace gradmill {
namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

constexpr NamePair kGpt2Outer[] = {
    {"embedding.tokens", "transformer.wte"},
    {"embedding.positions", "transformer.wpe"},
    {"norm", "transformer.ln_f"},
    {"head", "lm_head"},
};
constexpr NamePair kGpt2Inner[] = {
    {"norm1", "ln_1"}, {"attention.qkv", "attn.c_attn"}, {"attention.out", "attn.c_proj"},
    {"norm2", "ln_2"}, {"mlp.up", "mlp.c_fc"},           {"mlp.down", "mlp.c_proj"},
};
constexpr NamePair kLlamaOuter[] = {
    {"embedding.tokens", "model.embed_tokens"},
    {"norm", "model.norm"},
    {"head", "lm_head"},
};
constexpr NamePair kLlamaInner[] = {
    {"norm1", "input_layernorm"},
    {"attention.q_norm", "self_attn.q_norm"},
    {"attention.k_norm", "self_attn.k_norm"},
    {"attention.out", "self_attn.o_proj"},
    {"norm2", "post_attention_layernorm"},
    {"mlp.down", "mlp.down_proj"},
};

std::string_view look_up(std::span<const NamePair> table, std::string_view name) {
  for (const NamePair& pair : table) {
    if (pair.first == name) return pair.second;
  }
  throw usage_error(fmt::format("parameter '{}' has no name in this model family", name), "check the model's settings");
}

struct ParsedName {
  std::string layer;   // "3", or empty
  std::string module;  // "attention.qkv"
  std::string leaf;    // "weight"
};

ParsedName parse(const std::string& name) {
  ParsedName parsed;
  const size_t dot = name.rfind('.');
  parsed.module = name.substr(0, dot);
  parsed.leaf = name.substr(dot + 1);
  constexpr std::string_view kPrefix = "layers.";
  if (parsed.module.starts_with(kPrefix)) {
    const size_t end = parsed.module.find('.', kPrefix.size());
    parsed.layer = parsed.module.substr(kPrefix.size(), end - kPrefix.size());
    parsed.module = parsed.module.substr(end + 1);
  }
  return parsed;
}

std::vector<HfTensor> gpt2_tensors(const ParsedName& name, const ParamSpec& spec) {
  const int64_t rows = spec.is_matrix() ? spec.rows : spec.cols;
  if (name.layer.empty()) return {{fmt::format("{}.{}", look_up(kGpt2Outer, name.module), name.leaf), rows}};
  // GPT-2's linear layers are stored as (in, out).
  return {{fmt::format("transformer.h.{}.{}.{}", name.layer, look_up(kGpt2Inner, name.module), name.leaf), rows,
           spec.is_matrix()}};
}

std::vector<HfTensor> llama_tensors(const ParsedName& name, const ParamSpec& spec, const Block* block) {
  const int64_t rows = spec.is_matrix() ? spec.rows : spec.cols;
  if (block == nullptr) return {{fmt::format("{}.{}", look_up(kLlamaOuter, name.module), name.leaf), rows}};
  const bool is_qkv = name.module == "attention.qkv";
  if (!is_qkv && name.module != "mlp.up") {
    return {{fmt::format("model.layers.{}.{}.{}", name.layer, look_up(kLlamaInner, name.module), name.leaf), rows}};
  }
  std::vector<HfTensor> tensors;
  for (const Linear::Slice& slice : (is_qkv ? block->attention().qkv() : block->mlp().up()).slices()) {
    tensors.push_back(
        {fmt::format("model.layers.{}.{}.{}_proj.{}", name.layer, is_qkv ? "self_attn" : "mlp", slice.name, name.leaf),
         slice.rows});
  }
  return tensors;
}

}  // namespace

std::vector<HfTensor> hf_tensors(HfFamily family, const Transformer& model, ParamId id) {
  const ParamSpec& spec = model.params().spec(id);
  if (spec.beside_model) return {};
  const ParsedName name = parse(spec.name);
  if (family == HfFamily::gpt2) return gpt2_tensors(name, spec);
  const Block* block = name.layer.empty() ? nullptr : &model.blocks()[static_cast<size_t>(std::stoll(name.layer))];
  return llama_tensors(name, spec, block);
}

}  // namespace gradmill
