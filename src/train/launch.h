// SPDX-License-Identifier: Apache-2.0
// A whole training run as a user starts it: config, folder, lock, metrics, signals, resume.
#pragma once

#include <string>

#include "config/loader.h"

namespace gradmill {

struct LaunchOptions {
  ConfigRequest config;
  std::string resume;    // "", "auto", or a path
  std::string preset;    // "", or what run/preset.h takes
  bool dry_run = false;  // check everything, print config and plan, train nothing
};

// The process's exit code: 0, or 130 when a signal ended the run and its state was saved.
int launch_training(const LaunchOptions& options);

}  // namespace gradmill
