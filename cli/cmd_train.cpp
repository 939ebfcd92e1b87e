// SPDX-License-Identifier: Apache-2.0
// gradmill train
#include <memory>

#include "commands.h"
#include "config_args.h"
#include "train/launch.h"

namespace gradmill::cli {

Run add_train(CLI::App& app) {
  const auto options = std::make_shared<LaunchOptions>();
  const auto dataset = std::make_shared<std::string>();
  const auto path = std::make_shared<std::string>();
  const auto tokenizer = std::make_shared<std::string>();
  const auto download = std::make_shared<bool>(false);
  add_config_args(app, options->config);
  app.add_option("--dataset", *dataset, "short for data.dataset=");
  app.add_option("--data", *path, "short for data.path=");
  app.add_option("--tokenizer", *tokenizer, "short for data.tokenizer=");
  app.add_flag("--download", *download, "short for data.download=true");
  app.add_option("--resume", options->resume,
                 "resume a run: auto (the one started last), a run folder, or a checkpoint");
  app.add_option("--preset", options->preset,
                 "choose settings that fit the memory of: auto (this machine's GPU), a GPU such as rtx3090, or a size "
                 "such as 12GB");
  app.add_flag("--dry-run", options->dry_run, "check everything and print the settings and the plan, but do not train");
  return [=] {
    if (!dataset->empty()) options->config.overrides.push_back("data.dataset=" + *dataset);
    if (!path->empty()) options->config.overrides.push_back("data.path=" + *path);
    if (!tokenizer->empty()) options->config.overrides.push_back("data.tokenizer=" + *tokenizer);
    if (*download) options->config.overrides.push_back("data.download=true");
    return launch_training(*options);
  };
}

}  // namespace gradmill::cli
