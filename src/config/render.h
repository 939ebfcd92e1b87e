// SPDX-License-Identifier: Apache-2.0
// A configuration as text: the effective YAML, help, the reference page, and differences.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/loader.h"

namespace gradmill {

// Every setting as YAML; load_config reads it back to the same values. `with_origins` adds where each value came from
// as a comment.
std::string effective_yaml(const LoadedConfig& loaded, bool with_origins);

// The origins in a text that effective_yaml wrote with origins, by "section.key".
std::map<std::string, std::string> origins_in(const std::string& yaml);

// Every setting with default, meaning and allowed values, as plain text for a terminal.
std::string config_help();

// The same as Markdown: docs/config.md.
std::string config_reference();

struct ConfigDifference {
  std::string key;  // "section.key"
  std::string a, b;
  bool operator==(const ConfigDifference&) const = default;
};

// The settings whose values differ, in the order of the sections.
std::vector<ConfigDifference> diff(const RunConfig& a, const RunConfig& b);

}  // namespace gradmill
