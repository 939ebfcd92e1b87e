// SPDX-License-Identifier: Apache-2.0
// gradmill compare
#include <fmt/core.h>

#include <memory>

#include "commands.h"
#include "report/compare_runs.h"

namespace gradmill::cli {

Run add_compare(CLI::App& app) {
  const auto folders = std::make_shared<std::pair<std::string, std::string>>();
  app.add_option("run_a", folders->first, "a run folder")->required();
  app.add_option("run_b", folders->second, "another one")->required();
  return [folders] {
    fmt::print("{}", compare_runs(folders->first, folders->second));
    return 0;
  };
}

}  // namespace gradmill::cli
