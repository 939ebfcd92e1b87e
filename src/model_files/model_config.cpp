// SPDX-License-Identifier: Apache-2.0
// From model_type and architectures to the family's reader and the head.
#include "model_files/model_config.h"

#include "files/strict_json.h"
#include "model_files/config_reader.h"
#include "model_files/families/registry.h"

namespace gradmill {
namespace {

using nlohmann::json;

constexpr size_t kMostLabels = 100'000;

const Family& read_family(const ConfigReader& reader) {
  const Family* const family = find_family(reader.text("model_type", ""));
  if (family == nullptr) throw reader.refusal("model_type", family_names());
  return *family;
}

const Architecture& read_architecture(const ConfigReader& reader, const Family& family) {
  const json& names = reader.value("architectures");
  if (names.is_null() || (names.is_array() && names.empty())) return *family.find_architecture(HeadKind::none);
  const std::string supported = family.architecture_names();
  if (!names.is_array() || names.size() != 1 || !names[0].is_string()) throw reader.refusal("architectures", supported);
  const Architecture* found = family.find_architecture(names[0].get<std::string>());
  if (found == nullptr) throw reader.refusal("architectures", supported);
  return *found;
}

// {"0": "no", "1": "yes"}: every id from 0 exactly once.
std::vector<std::string> read_labels(const ConfigReader& reader) {
  const json& names = reader.value("id2label");
  if (names.is_null()) {
    std::vector<std::string> labels;
    const int64_t count = reader.size("num_labels", 2, static_cast<int64_t>(kMostLabels));
    for (int64_t id = 0; id < count; ++id) labels.push_back(fmt::format("LABEL_{}", id));
    return labels;
  }
  const auto refused = [&] {
    return reader.refusal("id2label", "an object of label names by number, starting with \"0\"");
  };
  if (!names.is_object() || names.empty() || names.size() > kMostLabels) throw refused();
  std::vector<std::string> labels;
  for (size_t id = 0; id < names.size(); ++id) {
    const auto found = names.find(std::to_string(id));
    if (found == names.end() || !found->is_string()) throw refused();
    labels.push_back(found->get<std::string>());
  }
  return labels;
}

std::string read_problem_type(const ConfigReader& reader) {
  if (!reader.has("problem_type")) return {};
  reader.choice("problem_type", "", {"regression", "single_label_classification", "multi_label_classification"});
  return reader.text("problem_type", "");
}

std::vector<int64_t> read_tokens(const ConfigReader& reader, std::string_view key) {
  const json& value = reader.value(key);
  if (!value.is_array()) {
    const std::optional<int64_t> token = reader.token(key);
    return token ? std::vector{*token} : std::vector<int64_t>{};
  }
  std::vector<int64_t> tokens;
  for (const json& item : value) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > static_cast<uint64_t>(ConfigReader::kMostSize)) {
      throw reader.refusal(key, "token ids");
    }
    tokens.push_back(item.get<int64_t>());
  }
  return tokens;
}

// Keys that change what any model computes.
void check_common(const ConfigReader& reader) {
  reader.require_absent("quantization_config", "weights that are not quantised: fetch the model's own checkpoint");
  reader.require_flag("is_encoder_decoder", false, false);
  const json& pruned = reader.value("pruned_heads");
  if (!pruned.is_null() && !pruned.empty()) throw reader.refusal("pruned_heads", "none");
}

// `outer` is the whole file, `inner` the part that describes the text model. They differ only for multimodal models.
HfConfig read_parts(const ConfigReader& outer, const ConfigReader& inner, const Family& family) {
  HfConfig config{.family = &family};
  check_common(outer);
  check_common(inner);
  family.read(inner, config);
  // A multimodal model's file has it once, for both parts.
  if (&outer != &inner && outer.has("tie_word_embeddings") && !inner.has("tie_word_embeddings")) {
    config.spec.tied = outer.flag("tie_word_embeddings", true);
  }
  const Architecture& architecture = read_architecture(outer, family);
  config.problem_type = read_problem_type(outer);
  const auto first_with = [&](std::string_view key) -> const ConfigReader& { return inner.has(key) ? inner : outer; };
  config.pad_token = first_with("pad_token_id").token("pad_token_id");
  config.bos_token = first_with("bos_token_id").token("bos_token_id");
  config.eos_tokens = read_tokens(first_with("eos_token_id"), "eos_token_id");
  config.dtype = first_with("dtype").text("dtype", "");
  if (config.dtype.empty()) config.dtype = first_with("torch_dtype").text("torch_dtype", "");
  set_head(config, architecture.head,
           architecture.head == HeadKind::classifier ? read_labels(outer) : std::vector<std::string>{});
  config.architecture = architecture.name;
  return config;
}

}  // namespace

HfConfig read_model_config(std::string_view text, std::string_view where) {
  const json document = parse_strict_json(text, where);
  const ConfigReader outer(document, std::string(where));
  const Family& family = read_family(outer);
  std::optional<ConfigReader> nested;
  if (outer.text("model_type", "") == family.multimodal) {
    if (!outer.value("text_config").is_object()) throw outer.refusal("text_config", "an object");
    nested.emplace(outer.value("text_config"), fmt::format("{}: text_config", where));
  }
  HfConfig config = read_parts(outer, nested ? *nested : outer, family);
  config.source = text;
  try {
    config.spec.complete();
  } catch (const Error& error) {  // sizes that do not fit together
    throw data_error(fmt::format("{}: {}", where, error.what()), "");
  }
  return config;
}

HfConfig new_model_config(const Family& family, TransformerSpec spec) {
  HfConfig config{.family = &family, .spec = std::move(spec)};
  config.architecture = family.find_architecture(config.spec.head)->name;
  return config;
}

void set_head(HfConfig& config, HeadKind head, std::vector<std::string> labels) {
  const Architecture* const architecture = config.family->find_architecture(head);
  if (architecture == nullptr) {
    throw usage_error(fmt::format("a {} model cannot have this head", config.family->name),
                      "use one of " + config.family->architecture_names());
  }
  TransformerSpec& spec = config.spec;
  const bool classifier = head == HeadKind::classifier;
  if (classifier && labels.empty()) throw usage_error("a classifier needs labels", "name them");
  config.architecture = architecture->name;
  spec.head = head;
  spec.labels = classifier ? std::ssize(labels) : 0;
  spec.pooler = classifier ? architecture->pooler : PoolerKind::none;
  spec.classifier_bias = classifier && architecture->classifier_bias;
  config.labels = classifier ? std::move(labels) : std::vector<std::string>{};
}

}  // namespace gradmill
