// SPDX-License-Identifier: Apache-2.0
// gradmill config
#include <fmt/core.h>

#include <memory>

#include "commands.h"
#include "config/render.h"
#include "config_args.h"

namespace gradmill::cli {

Run add_config(CLI::App& app) {
  const auto request = std::make_shared<ConfigRequest>();
  const auto origin = std::make_shared<bool>(false);
  app.require_subcommand(1);
  CLI::App* show = app.add_subcommand("show", "print the settings a run would have, as YAML");
  add_config_args(*show, *request);
  show->add_flag("--origin,--effective", *origin, "say where each value comes from");
  const CLI::App* reference = app.add_subcommand("reference", "print every setting as Markdown: docs/config.md");
  return [=] {
    fmt::print("{}", reference->parsed() ? config_reference() : effective_yaml(load_config(*request), *origin));
    return 0;
  };
}

}  // namespace gradmill::cli
