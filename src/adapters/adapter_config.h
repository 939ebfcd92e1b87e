// SPDX-License-Identifier: Apache-2.0
// AdapterConfig: PEFT's adapter_config.json for LoRA and DoRA.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gradmill {

// Selects modules: those whose name is in a list, or ends with "." and a name in the list; those that a regular
// expression matches as a whole; or all linear layers except the head.
struct ModuleSelection {
  std::vector<std::string> names;
  std::string expression;
  bool all_linear = false;

  bool empty() const { return names.empty() && expression.empty() && !all_linear; }
};

struct AdapterConfig {
  std::string task_type;   // "CAUSAL_LM", "SEQ_CLS", "FEATURE_EXTRACTION", or empty
  std::string base_model;  // where the base came from: a name or a folder
  int64_t rank = 8;
  double alpha = 8;
  double dropout = 0;
  bool rslora = false;  // scale alpha / √rank instead of alpha / rank
  bool dora = false;
  ModuleSelection targets, excluded;
  // Expressions for the ends of names, with the value for the modules they match. The first match counts. PEFT sorts
  // the expressions.
  std::vector<std::pair<std::string, int64_t>> rank_pattern;
  std::vector<std::pair<std::string, double>> alpha_pattern;
  std::optional<std::vector<int64_t>> layers;  // only in these layers
  std::vector<std::string> layers_pattern;     // name of the module list that holds the layers; empty: any
  std::vector<std::string> modules_to_save;    // trained in full, and saved with the adapter
};

// Throws a data error that begins with `where` if anything is malformed or not supported: other methods, biases,
// special initial values.
AdapterConfig parse_adapter_config(std::string_view json, std::string_view where);
// JSON that every version of PEFT reads. `conv1d`: the adapted layers are stored as (in, out), like GPT-2's.
std::string adapter_config_json(const AdapterConfig& config, bool conv1d);

}  // namespace gradmill
