// SPDX-License-Identifier: Apache-2.0
#include "config_args.h"

#include "config/render.h"

namespace gradmill::cli {

void add_config_args(CLI::App& app, ConfigRequest& request) {
  app.add_option("settings", request.overrides, "section.key=value, or group=name such as experiment=shakespeare_cpu");
  app.add_option("--config", request.files, "YAML file with settings; may be repeated")->allow_extra_args(false);
  app.add_option("--config-dir", request.config_dirs, "folder to search first for groups; may be repeated")
      ->allow_extra_args(false);
  app.footer([] { return "Settings:\n" + config_help(); });
}

}  // namespace gradmill::cli
