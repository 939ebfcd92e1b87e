// SPDX-License-Identifier: Apache-2.0
// The command-line options of a TrainConfig, shared by the commands that take one.
#pragma once

#include <CLI/CLI.hpp>

#include "train/train_config.h"

namespace gradmill::cli {

void add_train_options(CLI::App& app, TrainConfig& config);

}  // namespace gradmill::cli
