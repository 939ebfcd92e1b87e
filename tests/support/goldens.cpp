// SPDX-License-Identifier: Apache-2.0
#include "support/goldens.h"

#include <cstdlib>
#include <string>

namespace gradmill::test {

// The build sets the folder (tests/CMakeLists.txt), so that a test binary runs from any folder. On another machine an
// environment variable sets it.
std::filesystem::path golden_path(std::string_view name) {
  const char* folder = std::getenv("GRADMILL_GOLDENS");
  return std::filesystem::path(folder ? folder : GRADMILL_GOLDENS_DIR) / (std::string(name) + ".safetensors");
}

}  // namespace gradmill::test
