// SPDX-License-Identifier: Apache-2.0
// Runs a whole training as a user starts it: config, folder, lock, metrics, signals, resume.
#pragma once

#include <string>

#include "config/loader.h"

namespace gradmill {

struct LaunchOptions {
  ConfigRequest config;
  std::string resume;    // "", "auto", or a path
  std::string preset;    // "", or a preset of run/preset.h
  bool dry_run = false;  // check everything and print config and plan, but do not train
};

// Returns the process's exit code: 0, or 130 if a signal ended the run and its state was saved.
int launch_training(const LaunchOptions& options);

}  // namespace gradmill
