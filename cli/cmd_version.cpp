// SPDX-License-Identifier: Apache-2.0
// gradmill version
#include <fmt/core.h>

#include "commands.h"

namespace gradmill::cli {

Run add_version(CLI::App&) {
  return [] {
    fmt::print("gradmill {}\n", GRADMILL_VERSION);
    return 0;
  };
}

}  // namespace gradmill::cli
