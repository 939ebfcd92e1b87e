// SPDX-License-Identifier: Apache-2.0
// Every family is three lists: parameters of the body, of a layer, and of heads. Where one of our parameters is stored
// in parts, the list names the part ("attention.qkv/q").
#include "models/hf_names.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

namespace gradmill {
namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

struct FamilyNames {
  std::string_view prefix;  // "model."
  std::string_view layer;   // "layers."
  std::span<const NamePair> body, inner, heads;
  bool layers_transposed = false;  // linear layers are stored as (in, out)
};

constexpr NamePair kGpt2Body[] = {{"embedding.tokens", "wte"}, {"embedding.positions", "wpe"}, {"norm", "ln_f"}};
constexpr NamePair kGpt2Inner[] = {
    {"norm1", "ln_1"}, {"attention.qkv", "attn.c_attn"}, {"attention.out", "attn.c_proj"},
    {"norm2", "ln_2"}, {"mlp.up", "mlp.c_fc"},           {"mlp.down", "mlp.c_proj"},
};
constexpr NamePair kDecoderHeads[] = {{"head", "lm_head"}, {"classifier", "score"}};

constexpr NamePair kLlamaBody[] = {{"embedding.tokens", "embed_tokens"}, {"norm", "norm"}};
constexpr NamePair kLlamaInner[] = {
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
constexpr NamePair kGemma3Inner[] = {
    {"norm1", "input_layernorm"},
    {"attention.qkv/q", "self_attn.q_proj"},
    {"attention.qkv/k", "self_attn.k_proj"},
    {"attention.qkv/v", "self_attn.v_proj"},
    {"attention.q_norm", "self_attn.q_norm"},
    {"attention.k_norm", "self_attn.k_norm"},
    {"attention.out", "self_attn.o_proj"},
    {"norm1_out", "post_attention_layernorm"},
    {"norm2", "pre_feedforward_layernorm"},
    {"mlp.up/gate", "mlp.gate_proj"},
    {"mlp.up/up", "mlp.up_proj"},
    {"mlp.down", "mlp.down_proj"},
    {"norm2_out", "post_feedforward_layernorm"},
};

// The pooler belongs to BERT's body: it stands behind the prefix.
constexpr NamePair kBertBody[] = {
    {"embedding.tokens", "embeddings.word_embeddings"},
    {"embedding.positions", "embeddings.position_embeddings"},
    {"embedding.types", "embeddings.token_type_embeddings"},
    {"embedding.norm", "embeddings.LayerNorm"},
    {"pooler", "pooler.dense"},
};
constexpr NamePair kBertInner[] = {
    {"attention.qkv/q", "attention.self.query"},
    {"attention.qkv/k", "attention.self.key"},
    {"attention.qkv/v", "attention.self.value"},
    {"attention.out", "attention.output.dense"},
    {"norm1", "attention.output.LayerNorm"},
    {"mlp.up", "intermediate.dense"},
    {"mlp.down", "output.dense"},
    {"norm2", "output.LayerNorm"},
};
constexpr NamePair kBertHeads[] = {
    {"head.transform", "cls.predictions.transform.dense"},
    {"head.norm", "cls.predictions.transform.LayerNorm"},
    {"head.weight", "cls.predictions.decoder.weight"},
    {"head.bias", "cls.predictions.bias"},
    {"classifier", "classifier"},
};

constexpr NamePair kDebertaBody[] = {
    {"embedding.tokens", "embeddings.word_embeddings"},
    {"embedding.positions", "embeddings.position_embeddings"},
    {"embedding.types", "embeddings.token_type_embeddings"},
    {"embedding.norm", "embeddings.LayerNorm"},
    {"relative.table", "encoder.rel_embeddings"},
    {"relative.norm", "encoder.LayerNorm"},
};
constexpr NamePair kDebertaInner[] = {
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
constexpr NamePair kDebertaHeads[] = {
    {"pooler", "pooler.dense"},
    {"head.transform", "cls.predictions.transform.dense"},
    {"head.norm", "cls.predictions.transform.LayerNorm"},
    {"head.weight", "cls.predictions.decoder.weight"},
    {"head.bias", "cls.predictions.bias"},
    {"classifier", "classifier"},
};

constexpr NamePair kModernBertBody[] = {
    {"embedding.tokens", "embeddings.tok_embeddings"}, {"embedding.norm", "embeddings.norm"}, {"norm", "final_norm"}};
constexpr NamePair kModernBertInner[] = {
    {"norm1", "attn_norm"}, {"attention.qkv", "attn.Wqkv"}, {"attention.out", "attn.Wo"},
    {"norm2", "mlp_norm"},  {"mlp.up", "mlp.Wi"},           {"mlp.down", "mlp.Wo"},
};
constexpr NamePair kModernBertHeads[] = {
    {"head.transform", "head.dense"}, {"head.norm", "head.norm"}, {"pooler", "head.dense"},
    {"pooler.norm", "head.norm"},     {"head", "decoder"},        {"classifier", "classifier"},
};

FamilyNames names_of(HfFamily family) {
  switch (family) {
    case HfFamily::gpt2:
      return {"transformer.", "h.", kGpt2Body, kGpt2Inner, kDecoderHeads, true};
    case HfFamily::llama:
    case HfFamily::qwen2:
    case HfFamily::qwen3:
      break;
    case HfFamily::gemma3:
      return {"model.", "layers.", kLlamaBody, kGemma3Inner, kDecoderHeads};
    case HfFamily::bert:
      return {"bert.", "encoder.layer.", kBertBody, kBertInner, kBertHeads};
    case HfFamily::deberta_v2:
      return {"deberta.", "encoder.layer.", kDebertaBody, kDebertaInner, kDebertaHeads};
    case HfFamily::modernbert:
      return {"model.", "layers.", kModernBertBody, kModernBertInner, kModernBertHeads};
  }
  return {"model.", "layers.", kLlamaBody, kLlamaInner, kDecoderHeads};
}

// Empty: the list does not have it.
std::string_view look_up(std::span<const NamePair> list, std::string_view name) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const NamePair& pair) { return pair.first == name; });
  return found == list.end() ? std::string_view{} : found->second;
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

// A name that the list has with its leaf (a bias that stands alone), or without.
std::string stored_name(std::span<const NamePair> list, const std::string& module, const std::string& leaf) {
  if (const auto whole = look_up(list, fmt::format("{}.{}", module, leaf)); !whole.empty()) return std::string(whole);
  const auto name = look_up(list, module);
  return name.empty() ? std::string{} : fmt::format("{}.{}", name, leaf);
}

// Which named parts of a fused linear layer a parameter has.
std::vector<Linear::Slice> slices_of(const Transformer& model, const ParsedName& name) {
  const Block& block = model.blocks()[static_cast<size_t>(std::stoll(name.layer))];
  if (name.module == "attention.qkv") return block.attention().qkv().slices();
  if (name.module == "mlp.up") return block.mlp().up().slices();
  return {};
}

std::vector<HfTensor> layer_tensors(const FamilyNames& names, const Transformer& model, const ParsedName& name,
                                    const ParamSpec& spec, const std::string& prefix) {
  const int64_t rows = spec.is_matrix() ? spec.rows : spec.cols;
  const std::string start = fmt::format("{}{}{}.", prefix, names.layer, name.layer);
  if (const std::string whole = stored_name(names.inner, name.module, name.leaf); !whole.empty()) {
    return {{start + whole, rows, names.layers_transposed && spec.is_matrix()}};
  }
  std::vector<HfTensor> tensors;
  for (const Linear::Slice& slice : slices_of(model, name)) {
    const std::string part = stored_name(names.inner, fmt::format("{}/{}", name.module, slice.name), name.leaf);
    if (part.empty()) return {};
    tensors.push_back({start + part, slice.rows});
  }
  return tensors;
}

std::vector<HfTensor> tensors_of(HfFamily family, const Transformer& model, const ParamSpec& spec) {
  if (spec.beside_model) return {};
  const ParsedName name = parse(spec.name);
  const FamilyNames names = names_of(family);
  const std::string prefix(model.spec().head == HeadKind::none ? "" : names.prefix);
  const int64_t rows = spec.is_matrix() ? spec.rows : spec.cols;
  std::vector<HfTensor> tensors;
  if (!name.layer.empty()) {
    tensors = layer_tensors(names, model, name, spec, prefix);
  } else if (const std::string body = stored_name(names.body, name.module, name.leaf); !body.empty()) {
    tensors = {{prefix + body, rows}};
  } else if (const std::string head = stored_name(names.heads, name.module, name.leaf); !head.empty()) {
    tensors = {{head, rows}};
  }
  if (tensors.empty()) {
    throw usage_error(fmt::format("parameter '{}' has no name in this model family", spec.name),
                      "check the model's settings");
  }
  return tensors;
}

}  // namespace

std::string_view hf_prefix(HfFamily family) { return names_of(family).prefix; }

std::vector<HfTensor> hf_tensors(HfFamily family, const Transformer& model, ParamId id) {
  return tensors_of(family, model, model.params().spec(id));
}

std::vector<HfTensor> hf_absent_biases(HfFamily family, const Transformer& model) {
  std::vector<HfTensor> absent;
  if (family != HfFamily::gpt2) return absent;
  const ParamTable& params = model.params();
  std::set<std::string> names;
  for (ParamId id = 0; id < params.size(); ++id) names.insert(params.spec(id).name);
  for (ParamId id = 0; id < params.size(); ++id) {
    const ParamSpec& weight = params.spec(id);
    const ParsedName name = parse(weight.name);
    // Embeddings and the head have none in any case.
    if (name.leaf != "weight" || (name.layer.empty() && name.module != "norm")) continue;
    const ParamSpec bias{.name = weight.name.substr(0, weight.name.rfind('.')) + ".bias",
                         .cols = weight.is_matrix() ? weight.rows : weight.cols};
    if (!names.contains(bias.name)) absent.push_back(tensors_of(family, model, bias).front());
  }
  return absent;
}

}  // namespace gradmill
