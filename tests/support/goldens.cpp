// SPDX-License-Identifier: Apache-2.0
#include "support/goldens.h"

#include <cstdlib>
#include <string>

namespace gradmill::test {

// The build names the folder (tests/CMakeLists.txt), so that a test binary runs from anywhere; on another machine the
// environment does.
std::filesystem::path golden_path(std::string_view name) {
  const char* folder = std::getenv("GRADMILL_GOLDENS");
  return std::filesystem::path(folder ? folder : GRADMILL_GOLDENS_DIR) / (std::string(name) + ".safetensors");
}

}  // namespace gradmill::test
