// SPDX-License-Identifier: Apache-2.0
// The errors for invalid configurations.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "config/loader.h"
#include "core/error.h"

namespace gradmill::test {

// One line per error, without the heading for several; empty if the configuration loads.
inline std::vector<std::string> mistakes_of(const ConfigRequest& request) {
  std::vector<std::string> lines;
  try {
    load_config(request);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    std::istringstream stream(error.what());
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    if (lines.size() > 1) {
      EXPECT_EQ(lines.front(), "the configuration has " + std::to_string(lines.size() - 1) + " mistakes:");
      lines.erase(lines.begin());
      for (std::string& line : lines) {
        EXPECT_EQ(line.substr(0, 2), "  ");
        line.erase(0, 2);
      }
    }
  }
  return lines;
}

// The single error that these overrides cause.
inline std::string mistake_of(const std::vector<std::string>& overrides) {
  const std::vector<std::string> lines = mistakes_of({.overrides = overrides});
  EXPECT_EQ(lines.size(), 1u) << testing::PrintToString(lines);
  return lines.empty() ? "" : lines.front();
}

}  // namespace gradmill::test
