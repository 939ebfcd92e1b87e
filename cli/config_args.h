// SPDX-License-Identifier: Apache-2.0
// The arguments of every command that takes a configuration.
#pragma once

#include <CLI/CLI.hpp>

#include "config/loader.h"

namespace gradmill::cli {

// Adds "section.key=value" and "group=name" arguments, --config and --config-dir.
void add_config_args(CLI::App& app, ConfigRequest& request);

}  // namespace gradmill::cli
