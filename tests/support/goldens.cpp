// SPDX-License-Identifier: Apache-2.0
#include "support/goldens.h"

#include <string>

namespace gradmill::test {

// The build names the folder (tests/CMakeLists.txt), so that a test binary runs from anywhere.
std::filesystem::path golden_path(std::string_view name) {
  return std::filesystem::path(GRADMILL_GOLDENS_DIR) / (std::string(name) + ".safetensors");
}

}  // namespace gradmill::test
