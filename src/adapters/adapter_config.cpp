// SPDX-License-Identifier: Apache-2.0
#include "adapters/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "adapters/module_pattern.h"
#include "core/error.h"
#include "files/strict_json.h"

namespace gradmill {
namespace {

using nlohmann::json;

constexpr int64_t kMaxRank = 4096, kMaxLayers = 1 << 16;
constexpr size_t kMaxNames = 10000;

// Keys that do not affect the maths, or only how a new adapter is initialised.
constexpr std::string_view kIgnored[] = {"auto_mapping", "base_model_name_or_path", "inference_mode", "megatron_core",
                                         "peft_version", "qalora_group_size",       "revision",       "runtime_config"};

class AdapterFileReader {
 public:
  AdapterFileReader(const json& root, std::string_view where) : root_(root), where_(where) {}

  AdapterConfig read();

 private:
  Error bad(std::string_view key, std::string_view what) const {
    return data_error(fmt::format("{}: '{}' {}", where_, key, what), "correct the file, or write it with PEFT again");
  }
  Error unsupported(std::string_view key, std::string_view what) const {
    return data_error(fmt::format("{}: {} = {} is not supported", where_, key, what),
                      "train the adapter without it; LoRA, rsLoRA and DoRA are supported");
  }
  const json& member(const char* key) {
    static const json kNull;
    known_.push_back(key);
    const auto found = root_.find(key);
    return found == root_.end() ? kNull : *found;
  }
  std::string shown(const json& value) const { return quote_for_message(value.dump(-1, ' ', true)); }

  bool flag(const char* key);
  double number(const char* key, double fallback, double least, double most);
  double checked(const char* key, const json& value, double least, double most) const;
  int64_t integer(const char* key, const json& value, int64_t least, int64_t most) const;
  std::string text(const char* key);
  std::vector<std::string> names(const char* key, const json& value) const;
  ModuleSelection selection(const char* key);
  void read_layers(AdapterConfig& config);
  void read_patterns(AdapterConfig& config);
  void refuse_the_rest();

  const json& root_;
  std::string_view where_;
  std::vector<std::string> known_;
};

bool AdapterFileReader::flag(const char* key) {
  const json& value = member(key);
  if (value.is_null()) return false;
  if (!value.is_boolean()) throw bad(key, "is neither true nor false");
  return value.get<bool>();
}

double AdapterFileReader::checked(const char* key, const json& value, double least, double most) const {
  if (!value.is_number()) throw bad(key, "is not a number");
  const double result = value.get<double>();
  if (!(result >= least && result <= most)) throw bad(key, fmt::format("is not between {} and {}", least, most));
  return result;
}

double AdapterFileReader::number(const char* key, double fallback, double least, double most) {
  const json& value = member(key);
  return value.is_null() ? fallback : checked(key, value, least, most);
}

int64_t AdapterFileReader::integer(const char* key, const json& value, int64_t least, int64_t most) const {
  if (!value.is_number_integer()) throw bad(key, "is not a whole number");
  return static_cast<int64_t>(checked(key, value, static_cast<double>(least), static_cast<double>(most)));
}

std::string AdapterFileReader::text(const char* key) {
  const json& value = member(key);
  if (value.is_null()) return {};
  if (!value.is_string()) throw bad(key, "is not a string");
  return value.get<std::string>();
}

std::vector<std::string> AdapterFileReader::names(const char* key, const json& value) const {
  if (value.is_null()) return {};
  if (!value.is_array() || value.size() > kMaxNames) throw bad(key, "is not a list of names");
  std::vector<std::string> result;
  for (const json& name : value) {
    if (!name.is_string() || name.get_ref<const std::string&>().empty()) throw bad(key, "is not a list of names");
    result.push_back(name.get<std::string>());
  }
  return result;
}

ModuleSelection AdapterFileReader::selection(const char* key) {
  const json& value = member(key);
  ModuleSelection selection;
  if (!value.is_string()) {
    selection.names = names(key, value);
    return selection;
  }
  selection.expression = value.get<std::string>();
  selection.all_linear = selection.expression == "all-linear";
  if (selection.all_linear) {
    selection.expression.clear();
  } else {
    ModulePattern(selection.expression, fmt::format("{}: {}", where_, key));
  }
  return selection;
}

void AdapterFileReader::read_layers(AdapterConfig& config) {
  const json& layers = member("layers_to_transform");
  if (layers.is_array()) {
    config.layers.emplace();
    for (const json& layer : layers) config.layers->push_back(integer("layers_to_transform", layer, 0, kMaxLayers));
  } else if (!layers.is_null()) {
    config.layers = std::vector<int64_t>{integer("layers_to_transform", layers, 0, kMaxLayers)};
  }
  const json& pattern = member("layers_pattern");
  config.layers_pattern =
      pattern.is_string() ? std::vector<std::string>{pattern.get<std::string>()} : names("layers_pattern", pattern);
  for (const std::string& name : config.layers_pattern) {
    const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    });
    if (!plain) throw unsupported("layers_pattern", quote_for_message(name));
  }
  if (config.layers && config.targets.names.empty()) {
    throw bad("layers_to_transform", "requires target_modules to be a list");
  }
}

void AdapterFileReader::read_patterns(AdapterConfig& config) {
  const auto each = [&](const char* key, const auto& visit) {
    const json& patterns = member(key);
    if (patterns.is_null()) return;
    if (!patterns.is_object() || patterns.size() > kMaxNames) throw bad(key, "is not an object of patterns");
    for (const auto& [pattern, value] : patterns.items()) {
      ModulePattern(pattern, fmt::format("{}: {}", where_, key));
      visit(pattern, value);
    }
  };
  each("rank_pattern", [&](const std::string& pattern, const json& value) {
    config.rank_pattern.emplace_back(pattern, integer("rank_pattern", value, 1, kMaxRank));
  });
  each("alpha_pattern", [&](const std::string& pattern, const json& value) {
    config.alpha_pattern.emplace_back(pattern, checked("alpha_pattern", value, 0, 1e6));
  });
}

// Unknown keys of later versions may change the maths, unless their value is empty.
void AdapterFileReader::refuse_the_rest() {
  for (const auto& [key, value] : root_.items()) {
    const bool known = std::find(known_.begin(), known_.end(), key) != known_.end() ||
                       std::find(std::begin(kIgnored), std::end(kIgnored), key) != std::end(kIgnored);
    const bool empty = value.is_null() || value == json(false) || (value.is_structured() && value.empty());
    if (!known && !empty) throw unsupported(quote_for_message(key), shown(value));
  }
}

AdapterConfig AdapterFileReader::read() {
  if (!root_.is_object())
    throw data_error(fmt::format("{}: not a JSON object", where_),
                     "the file is damaged: fetch it again, or write it with PEFT again");
  AdapterConfig config;
  if (const json& type = member("peft_type"); type != json("LORA")) throw unsupported("peft_type", shown(type));
  config.task_type = text("task_type");
  if (!config.task_type.empty() && config.task_type != "CAUSAL_LM" && config.task_type != "SEQ_CLS" &&
      config.task_type != "FEATURE_EXTRACTION") {
    throw unsupported("task_type", quote_for_message(config.task_type));
  }
  config.base_model = text("base_model_name_or_path");
  if (const json& rank = member("r"); !rank.is_null()) config.rank = integer("r", rank, 1, kMaxRank);
  config.alpha = number("lora_alpha", 8, 0, 1e6);
  config.dropout = number("lora_dropout", 0, 0, 0.99);
  config.rslora = flag("use_rslora");
  config.dora = flag("use_dora");
  flag("fan_in_fan_out");  // the model determines it
  if (flag("lora_bias")) throw unsupported("lora_bias", "true");
  if (const std::string bias = text("bias"); !bias.empty() && bias != "none") {
    throw unsupported("bias", quote_for_message(bias));
  }
  const json& first_values = member("init_lora_weights");
  if (!first_values.is_null() && !first_values.is_boolean() && first_values != json("gaussian")) {
    throw unsupported("init_lora_weights", shown(first_values));
  }
  config.targets = selection("target_modules");
  if (config.targets.empty()) throw bad("target_modules", "names no modules");
  config.excluded = selection("exclude_modules");
  if (config.excluded.all_linear) throw unsupported("exclude_modules", "all-linear");
  config.modules_to_save = names("modules_to_save", member("modules_to_save"));
  read_layers(config);
  read_patterns(config);
  refuse_the_rest();
  return config;
}

json selection_json(const ModuleSelection& selection) {
  if (selection.all_linear) return "all-linear";
  if (!selection.expression.empty()) return selection.expression;
  return selection.names.empty() ? json() : json(selection.names);
}

}  // namespace

AdapterConfig parse_adapter_config(std::string_view text, std::string_view where) {
  return AdapterFileReader(parse_strict_json(text, where, {.max_values = 100'000}), where).read();
}

std::string adapter_config_json(const AdapterConfig& config, bool conv1d) {
  const auto text = [](const std::string& value) { return value.empty() ? json() : json(value); };
  const auto table = [](const auto& pairs) {
    json result = json::object();
    for (const auto& [key, value] : pairs) result[key] = value;
    return result;
  };
  // PEFT writes whole numbers without a decimal point, and some versions compare the text.
  const json alpha =
      config.alpha == std::floor(config.alpha) ? json(static_cast<int64_t>(config.alpha)) : json(config.alpha);
  const json root = {{"alpha_pattern", table(config.alpha_pattern)},
                     {"auto_mapping", nullptr},
                     {"base_model_name_or_path", text(config.base_model)},
                     {"bias", "none"},
                     {"exclude_modules", selection_json(config.excluded)},
                     {"fan_in_fan_out", conv1d},
                     {"inference_mode", true},
                     {"init_lora_weights", true},
                     {"layers_pattern", config.layers_pattern.empty() ? json() : json(config.layers_pattern)},
                     {"layers_to_transform", config.layers ? json(*config.layers) : json()},
                     {"lora_alpha", alpha},
                     {"lora_bias", false},
                     {"lora_dropout", config.dropout},
                     {"modules_to_save", config.modules_to_save.empty() ? json() : json(config.modules_to_save)},
                     {"peft_type", "LORA"},
                     {"r", config.rank},
                     {"rank_pattern", table(config.rank_pattern)},
                     {"revision", nullptr},
                     {"target_modules", selection_json(config.targets)},
                     {"task_type", text(config.task_type)},
                     {"use_dora", config.dora},
                     {"use_rslora", config.rslora}};
  return root.dump(2) + "\n";
}

}  // namespace gradmill
