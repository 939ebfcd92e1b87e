// SPDX-License-Identifier: Apache-2.0
// Turns GGUF's metadata into a config.json, so that a single reader decides what a model is; and back.
#include "model_files/gguf/gguf_config.h"

#include "model_files/families/registry.h"
#include "model_files/gguf/gguf_decoder.h"

namespace gradmill {
namespace {

using nlohmann::ordered_json;

const GgufTensor& embedding(const GgufKeys& keys) {
  const GgufTensor* tensor = keys.find_tensor("token_embd.weight");
  if (tensor == nullptr || tensor->dims.size() != 2) throw keys.file().bad("no matrix token_embd.weight");
  return *tensor;
}

void check_supported(const GgufFile& file, std::string_view architecture) {
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", architecture, name); };
  if (file.whole(key("expert_count"), 0) > 0) throw file.refusal(key("expert_count"), "models without experts");
  if (!file.flag(key("attention.causal"), true)) throw file.refusal(key("attention.causal"), "true");
}

}  // namespace

std::string gguf_config_json(const GgufFile& file) {
  const std::string_view architecture = file.text("general.architecture");
  const Family* const family = find_gguf_family(architecture);
  if (family == nullptr) throw file.refusal("general.architecture", gguf_family_names());
  check_supported(file, architecture);
  const GgufKeys keys(file, architecture);
  ordered_json json;
  json["architectures"] = {family->find_architecture(HeadKind::causal_lm)->name};
  json["model_type"] = family->name;
  json["vocab_size"] = embedding(keys).dims[0];
  family->gguf.read(keys, json);
  json["tie_word_embeddings"] = keys.find_tensor("output.weight") == nullptr;
  const auto add_token = [&](const char* name, const char* key) {
    if (file.find(key) != nullptr) json[name] = file.whole(key);
  };
  add_token("bos_token_id", "tokenizer.ggml.bos_token_id");
  add_token("eos_token_id", "tokenizer.ggml.eos_token_id");
  add_token("pad_token_id", "tokenizer.ggml.padding_token_id");
  return json.dump(2) + "\n";
}

void add_model_metadata(GgufMetadata& metadata, const HfConfig& config) {
  const TransformerSpec& spec = config.spec;
  const GgufForm& form = config.family->gguf;
  if (form.architecture.empty() || spec.head != HeadKind::causal_lm) {
    throw no_gguf_form(fmt::format("a {}; it only has language models", config.architecture));
  }
  const std::string prefix = fmt::format("{}.", form.architecture);
  metadata.add_text("general.architecture", form.architecture);
  metadata.add_text("general.type", "model");
  metadata.add_whole(prefix + "context_length", spec.max_positions);
  metadata.add_whole(prefix + "embedding_length", spec.width);
  metadata.add_whole(prefix + "block_count", spec.layers);
  metadata.add_whole(prefix + "feed_forward_length", spec.mlp_width);
  metadata.add_whole(prefix + "attention.head_count", spec.heads);
  metadata.add_whole(prefix + "vocab_size", spec.vocab);
  form.write(metadata, prefix, spec);
}

}  // namespace gradmill
