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

// Which modules: those whose name is one of a list or ends with "." and one of it; or those a regular expression
// matches from end to end; or all linear layers but the head.
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
  // Expressions for the ends of names, and what holds for the modules they match; the first match counts. PEFT sorts
  // them.
  std::vector<std::pair<std::string, int64_t>> rank_pattern;
  std::vector<std::pair<std::string, double>> alpha_pattern;
  std::optional<std::vector<int64_t>> layers;  // only these
  std::vector<std::string> layers_pattern;     // names of the list of layers; empty: any
  std::vector<std::string> modules_to_save;    // trained in full, and kept with the adapter
};

// Throws a data error that begins with `where` for anything that is malformed, or asks for what this program does not
// do: other methods, biases, special first values.
AdapterConfig parse_adapter_config(std::string_view json, std::string_view where);
// What every version of PEFT reads. `conv1d`: the adapted layers are stored as (in, out), as GPT-2's are.
std::string adapter_config_json(const AdapterConfig& config, bool conv1d);

}  // namespace gradmill
