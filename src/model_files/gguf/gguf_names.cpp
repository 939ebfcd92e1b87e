// SPDX-License-Identifier: Apache-2.0
#include "model_files/gguf/gguf_names.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

namespace gradmill {
namespace {

// Our names and GGUF's. Where several parameters of ours have one name there, a model has only one of them.
constexpr NamePair kOuter[] = {{"embedding.tokens", "token_embd"},
                               {"embedding.positions", "position_embd"},
                               {"norm", "output_norm"},
                               {"head", "output"}};
constexpr NamePair kInner[] = {{"norm1", "attn_norm"},
                               {"attention.qkv", "attn_qkv"},
                               {"attention.qkv/q", "attn_q"},
                               {"attention.qkv/k", "attn_k"},
                               {"attention.qkv/v", "attn_v"},
                               {"attention.q_norm", "attn_q_norm"},
                               {"attention.k_norm", "attn_k_norm"},
                               {"attention.out", "attn_output"},
                               {"norm1_out", "post_attention_norm"},
                               {"norm2", "ffn_norm"},
                               {"mlp.up", "ffn_up"},
                               {"mlp.up/up", "ffn_up"},
                               {"mlp.up/gate", "ffn_gate"},
                               {"mlp.down", "ffn_down"},
                               {"norm2_out", "post_ffw_norm"}};

std::string_view find_theirs(std::span<const NamePair> names, std::string_view ours) {
  for (const NamePair& pair : names) {
    if (pair.first == ours) return pair.second;
  }
  return {};
}

// A module's name in `to`, by its name in `from`; empty: one of them does not have it.
std::string_view translate(std::span<const NamePair> from, std::span<const NamePair> to, std::string_view module) {
  for (const NamePair& pair : from) {
    if (pair.second != module) continue;
    if (const std::string_view found = find_theirs(to, pair.first); !found.empty()) return found;
  }
  return {};
}

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

std::optional<std::string> hf_name_of_gguf(const Family& family, std::string_view name) {
  const ParamNames& names = family.params;
  const std::optional<Parsed> parsed = parse(name, "blk.");
  if (!parsed) return std::nullopt;
  if (!parsed->layer.empty()) {
    const std::string_view module = translate(kInner, names.inner, parsed->module);
    if (module.empty()) return std::nullopt;
    return fmt::format("{}{}{}.{}.{}", names.prefix, names.layer, parsed->layer, module, parsed->leaf);
  }
  if (const std::string_view module = translate(kOuter, names.body, parsed->module); !module.empty()) {
    return fmt::format("{}{}.{}", names.prefix, module, parsed->leaf);
  }
  const std::string_view module = translate(kOuter, names.heads, parsed->module);
  if (module.empty()) return std::nullopt;
  return fmt::format("{}.{}", module, parsed->leaf);
}

std::optional<std::string> gguf_name_of_hf(const Family& family, std::string_view name) {
  const ParamNames& names = family.params;
  const std::optional<Parsed> parsed = parse(name, fmt::format("{}{}", names.prefix, names.layer));
  if (!parsed) return std::nullopt;
  if (!parsed->layer.empty()) {
    const std::string_view module = translate(names.inner, kInner, parsed->module);
    if (module.empty()) return std::nullopt;
    return fmt::format("blk.{}.{}.{}", parsed->layer, module, parsed->leaf);
  }
  const bool body = parsed->module.starts_with(names.prefix);
  const std::string_view module = body ? translate(names.body, kOuter, parsed->module.substr(names.prefix.size()))
                                       : translate(names.heads, kOuter, parsed->module);
  if (module.empty()) return std::nullopt;
  return fmt::format("{}.{}", module, parsed->leaf);
}

bool is_gguf_query_or_key(std::string_view name) {
  return name.find(".attn_q.") != std::string_view::npos || name.find(".attn_k.") != std::string_view::npos;
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
