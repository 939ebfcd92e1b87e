// SPDX-License-Identifier: Apache-2.0
// Writes config.json: the source's keys stay as they are, except for those that training may have changed.
#include <nlohmann/json.hpp>

#include "model_files/model_config.h"

namespace gradmill {
namespace {

// Keeps the order of the source's keys. The text was checked when the config was read.
using nlohmann::ordered_json;

std::string_view torch_name(DType dtype) {
  return dtype == DType::bf16 ? "bfloat16" : dtype == DType::fp16 ? "float16" : "float32";
}

// Makes the text part of a multimodal config a model of its own.
ordered_json text_model(const ordered_json& source, const HfConfig& config) {
  ordered_json json = source.at("text_config");
  json["model_type"] = config.family->name;
  // Nobody reads these in a text part, but in a model of its own they would count.
  for (const char* key : {"problem_type", "id2label", "label2id", "num_labels"}) json.erase(key);
  config.family->write(config.spec, json);
  json["tie_word_embeddings"] = config.spec.tied;
  if (config.bos_token) json["bos_token_id"] = *config.bos_token;
  if (source.contains("eos_token_id") && !json.contains("eos_token_id")) json["eos_token_id"] = source["eos_token_id"];
  return json;
}

// Without a source.
ordered_json new_model(const HfConfig& config) {
  ordered_json json;
  json["model_type"] = config.family->name;
  config.family->write(config.spec, json);
  json["tie_word_embeddings"] = config.spec.tied;
  json["initializer_range"] = config.spec.init_std;
  // transformers would otherwise assume its own.
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = config.eos_tokens.empty() ? ordered_json() : ordered_json(config.eos_tokens.front());
  return json;
}

ordered_json body_of(const HfConfig& config) {
  if (config.source.empty()) return new_model(config);
  ordered_json source = ordered_json::parse(config.source);
  return is_multimodal(config) ? text_model(source, config) : source;
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

bool is_multimodal(const HfConfig& config) {
  if (config.source.empty() || config.family->multimodal.empty()) return false;
  return ordered_json::parse(config.source).value("model_type", "") == config.family->multimodal;
}

std::string write_model_config(const HfConfig& config, DType dtype) {
  ordered_json json = body_of(config);
  json["architectures"] = {config.family->find_architecture(config.spec.head)->name};
  json["dtype"] = json["torch_dtype"] = torch_name(dtype);
  json["vocab_size"] = config.spec.vocab;
  if (config.pad_token) json["pad_token_id"] = *config.pad_token;
  // They name code from the source's folder.
  json.erase("auto_map");
  if (config.has_labels()) write_labels(json, config);
  // Without a source there is no order to keep.
  const std::string text = config.source.empty() ? nlohmann::json(json).dump(2) : json.dump(2);
  return text + "\n";
}

}  // namespace gradmill
