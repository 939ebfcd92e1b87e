// SPDX-License-Identifier: Apache-2.0
// Puts a run's configuration together: defaults < group files < files < command line.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/run_config.h"

namespace gradmill {

struct ConfigRequest {
  // "section.key=value" and "group=name", in order. For a setting, and for a group, the last one counts.
  std::vector<std::string> overrides;
  std::vector<std::filesystem::path> files;
  std::vector<std::filesystem::path> config_dirs;  // where groups are looked up first; see config/groups.h
};

struct LoadedConfig {
  RunConfig config;
  // "training.steps" -> "default", "command line", "configs/experiment/x.yaml:3" or "embedded experiment/x.yaml:3".
  // Every setting has one.
  std::map<std::string, std::string> origins;
};

// Throws one usage error that lists every mistake of every layer: a line each, with its place, the allowed values
// and, for a misspelt name, what was probably meant.
LoadedConfig load_config(const ConfigRequest& request);

}  // namespace gradmill
