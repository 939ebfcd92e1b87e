// SPDX-License-Identifier: Apache-2.0
// gradmill doctor
#include <memory>

#include "commands.h"
#include "report/hardware_report.h"

#include <fmt/core.h>

namespace gradmill::cli {

Run add_doctor(CLI::App& app) {
  const auto runs = std::make_shared<std::string>("runs");
  const auto json = std::make_shared<bool>(false);
  app.add_option("--runs", *runs, "folder whose disk is checked")->capture_default_str();
  app.add_flag("--json", *json, "print JSON");
  return [=] {
    const HardwareReport report = hardware_report(*runs);
    fmt::print("{}", *json ? hardware_json(report) : hardware_text(report));
    return 0;
  };
}

}  // namespace gradmill::cli
