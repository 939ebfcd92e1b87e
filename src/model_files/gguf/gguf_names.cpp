// SPDX-License-Identifier: Apache-2.0
#include "model_files/gguf/gguf_names.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

namespace gradmill {
namespace {

using NamePair = std::pair<std::string_view, std::string_view>;  // GGUF's, Hugging Face's

constexpr NamePair kLlamaOuter[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr NamePair kLlamaInner[] = {{"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
                                    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
                                    {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
                                    {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
                                    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
                                    {"ffn_down", "mlp.down_proj"}};
constexpr NamePair kGemmaInner[] = {{"attn_norm", "input_layernorm"},
                                    {"attn_q", "self_attn.q_proj"},
                                    {"attn_k", "self_attn.k_proj"},
                                    {"attn_v", "self_attn.v_proj"},
                                    {"attn_output", "self_attn.o_proj"},
                                    {"attn_q_norm", "self_attn.q_norm"},
                                    {"attn_k_norm", "self_attn.k_norm"},
                                    {"post_attention_norm", "post_attention_layernorm"},
                                    {"ffn_norm", "pre_feedforward_layernorm"},
                                    {"post_ffw_norm", "post_feedforward_layernorm"},
                                    {"ffn_gate", "mlp.gate_proj"},
                                    {"ffn_up", "mlp.up_proj"},
                                    {"ffn_down", "mlp.down_proj"}};
constexpr NamePair kGpt2Outer[] = {{"token_embd", "transformer.wte"},
                                   {"position_embd", "transformer.wpe"},
                                   {"output_norm", "transformer.ln_f"},
                                   {"output", "lm_head"}};
constexpr NamePair kGpt2Inner[] = {{"attn_norm", "ln_1"}, {"attn_qkv", "attn.c_attn"}, {"attn_output", "attn.c_proj"},
                                   {"ffn_norm", "ln_2"},  {"ffn_up", "mlp.c_fc"},      {"ffn_down", "mlp.c_proj"}};

constexpr std::pair<std::string_view, HfFamily> kArchitectures[] = {{"llama", HfFamily::llama},
                                                                    {"qwen2", HfFamily::qwen2},
                                                                    {"qwen3", HfFamily::qwen3},
                                                                    {"gemma3", HfFamily::gemma3},
                                                                    {"gpt2", HfFamily::gpt2}};

std::span<const NamePair> outer_names(HfFamily kind) {
  return kind == HfFamily::gpt2 ? std::span<const NamePair>(kGpt2Outer) : kLlamaOuter;
}
std::span<const NamePair> inner_names(HfFamily kind) {
  if (kind == HfFamily::gpt2) return kGpt2Inner;
  return kind == HfFamily::gemma3 ? std::span<const NamePair>(kGemmaInner) : kLlamaInner;
}
std::string_view layer_prefix(HfFamily kind) { return kind == HfFamily::gpt2 ? "transformer.h." : "model.layers."; }

// "MODULE.weight" or "PREFIX7.MODULE.weight".
struct Parsed {
  std::string_view layer, module, leaf;
};
std::optional<Parsed> parse(std::string_view name, std::string_view prefix) {
  Parsed parsed;
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  parsed.leaf = name.substr(dot + 1);
  parsed.module = name.substr(0, dot);
  if (parsed.leaf != "weight" && parsed.leaf != "bias") return std::nullopt;
  if (!name.starts_with(prefix)) return parsed;
  parsed.module.remove_prefix(prefix.size());
  const size_t end = parsed.module.find('.');
  if (end == std::string_view::npos || end == 0 || end > 6) return std::nullopt;
  parsed.layer = parsed.module.substr(0, end);
  if (!std::all_of(parsed.layer.begin(), parsed.layer.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  parsed.module.remove_prefix(end + 1);
  return parsed;
}

// Neither has spaces, because nlohmann::json dumps none.
constexpr std::string_view kByteLevel =
    R"({"add_prefix_space":false,"trim_offsets":true,"type":"ByteLevel","use_regex":true})";
constexpr std::string_view kSmollm =
    R"({"pretokenizers":[{"individual_digits":true,"type":"Digits"},{"add_prefix_space":false,"trim_offsets":true,"type":"ByteLevel","use_regex":true}],"type":"Sequence"})";
constexpr std::string_view kLlama3 =
    R"({"pretokenizers":[{"behavior":"Isolated","invert":false,"pattern":{"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"type":"Split"},{"add_prefix_space":false,"trim_offsets":true,"type":"ByteLevel","use_regex":false}],"type":"Sequence"})";
constexpr std::string_view kQwen2 =
    R"({"pretokenizers":[{"behavior":"Isolated","invert":false,"pattern":{"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"type":"Split"},{"add_prefix_space":false,"trim_offsets":true,"type":"ByteLevel","use_regex":false}],"type":"Sequence"})";

constexpr GgufPreTokenizer kPreTokenizers[] = {
    {"gpt-2", kByteLevel}, {"smollm", kSmollm}, {"llama-bpe", kLlama3, false, true}, {"qwen2", kQwen2, true}};

// Removes keys that do not affect ids.
nlohmann::json essence(const nlohmann::json& part) {
  nlohmann::json result = part;
  if (result.is_object()) {
    result.erase("trim_offsets");
    for (auto& [key, value] : result.items()) value = essence(value);
  } else if (result.is_array()) {
    for (nlohmann::json& value : result) value = essence(value);
  }
  return result;
}

}  // namespace

std::optional<std::string> hf_name_of_gguf(HfFamily kind, std::string_view name) {
  const std::optional<Parsed> parsed = parse(name, "blk.");
  if (!parsed) return std::nullopt;
  for (const NamePair& pair : parsed->layer.empty() ? outer_names(kind) : inner_names(kind)) {
    if (pair.first != parsed->module) continue;
    if (parsed->layer.empty()) return fmt::format("{}.{}", pair.second, parsed->leaf);
    return fmt::format("{}{}.{}.{}", layer_prefix(kind), parsed->layer, pair.second, parsed->leaf);
  }
  return std::nullopt;
}

std::optional<std::string> gguf_name_of_hf(HfFamily kind, std::string_view name) {
  const std::optional<Parsed> parsed = parse(name, layer_prefix(kind));
  if (!parsed) return std::nullopt;
  for (const NamePair& pair : parsed->layer.empty() ? outer_names(kind) : inner_names(kind)) {
    if (pair.second != parsed->module) continue;
    if (parsed->layer.empty()) return fmt::format("{}.{}", pair.first, parsed->leaf);
    return fmt::format("blk.{}.{}.{}", parsed->layer, pair.first, parsed->leaf);
  }
  return std::nullopt;
}

std::optional<HfFamily> kind_of_architecture(std::string_view name) {
  for (const auto& [architecture, kind] : kArchitectures) {
    if (architecture == name) return kind;
  }
  return std::nullopt;
}

std::optional<std::string_view> architecture_of_kind(HfFamily kind) {
  for (const auto& [architecture, known] : kArchitectures) {
    if (known == kind) return architecture;
  }
  return std::nullopt;
}

const GgufPreTokenizer* find_pre_tokenizer(std::string_view name) {
  if (name == "llama3" || name == "llama-v3") name = "llama-bpe";
  if (name == "gpt2") name = "gpt-2";
  for (const GgufPreTokenizer& known : kPreTokenizers) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

const GgufPreTokenizer* match_pre_tokenizer(std::string_view json) {
  const nlohmann::json wanted = essence(nlohmann::json::parse(json));
  for (const GgufPreTokenizer& known : kPreTokenizers) {
    if (essence(nlohmann::json::parse(known.json)) == wanted) return &known;
  }
  return nullptr;
}

std::string pre_tokenizer_names() {
  std::string names;
  for (const GgufPreTokenizer& known : kPreTokenizers)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
  return names;
}

}  // namespace gradmill
