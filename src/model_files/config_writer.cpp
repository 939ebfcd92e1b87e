// SPDX-License-Identifier: Apache-2.0
// Writes config.json: the source's keys stay as they are, except for those that training may have changed.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "files/strict_json.h"
#include "model_files/architectures.h"

namespace gradmill {
namespace {

// Keeps the order of the source's keys. The text was checked when the config was read.
using nlohmann::ordered_json;

std::string_view torch_name(DType dtype) {
  return dtype == DType::bf16 ? "bfloat16" : dtype == DType::fp16 ? "float16" : "float32";
}

// Makes the text part of a multimodal config a model of its own. Sizes are written out, because defaults of the text
// model differ between versions.
ordered_json text_model(const ordered_json& source, const HfConfig& config) {
  ordered_json json = source.at("text_config");
  const TransformerSpec& spec = config.spec;
  json["model_type"] = "gemma3_text";
  // Nobody reads these in a text part, but in a model of its own they would count.
  for (const char* key : {"problem_type", "id2label", "label2id", "num_labels"}) json.erase(key);
  json["vocab_size"] = spec.vocab;
  json["hidden_size"] = spec.width;
  json["intermediate_size"] = spec.mlp_width;
  json["num_hidden_layers"] = spec.layers;
  json["num_attention_heads"] = spec.heads;
  json["num_key_value_heads"] = spec.kv_heads;
  json["head_dim"] = spec.head_dim;
  json["max_position_embeddings"] = spec.max_positions;
  json["sliding_window"] = spec.window;
  json["tie_word_embeddings"] = spec.tied;
  if (config.pad_token) json["pad_token_id"] = *config.pad_token;
  if (config.bos_token) json["bos_token_id"] = *config.bos_token;
  if (source.contains("eos_token_id") && !json.contains("eos_token_id")) json["eos_token_id"] = source["eos_token_id"];
  return json;
}

void write_labels(ordered_json& json, const HfConfig& config) {
  ordered_json names = ordered_json::object(), ids = ordered_json::object();
  for (size_t id = 0; id < config.labels.size(); ++id) {
    names[std::to_string(id)] = config.labels[id];
    ids[config.labels[id]] = id;
  }
  json["id2label"] = std::move(names);
  json["label2id"] = std::move(ids);
  json.erase("num_labels");
  if (config.problem_type.empty()) {
    json.erase("problem_type");
  } else {
    json["problem_type"] = config.problem_type;
  }
}

}  // namespace

std::string write_model_config(const HfConfig& config, DType dtype) {
  const ordered_json source = ordered_json::parse(config.source);
  const bool multimodal = source.value("model_type", "") == "gemma3";
  ordered_json json = multimodal ? text_model(source, config) : source;
  json["architectures"] = {find_architecture(config.family, config.spec.head)->name};
  json["dtype"] = json["torch_dtype"] = torch_name(dtype);
  json["vocab_size"] = config.spec.vocab;
  if (config.pad_token) json["pad_token_id"] = *config.pad_token;
  // They name code from the source's folder.
  json.erase("auto_map");
  if (config.has_labels()) write_labels(json, config);
  return json.dump(2) + "\n";
}

}  // namespace gradmill
