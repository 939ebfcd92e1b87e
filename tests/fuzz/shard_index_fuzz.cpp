// SPDX-License-Identifier: Apache-2.0
// Fuzz target: model.safetensors.index.json. The result must name only files in the folder.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "model_files/model_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradmill;
  try {
    for (const auto& [tensor, file] : read_shard_index({reinterpret_cast<const char*>(data), size}, "input")) {
      const std::filesystem::path path = std::filesystem::path("/folder") / file;
      if (path.lexically_normal().parent_path() != "/folder" || path.filename() != file) std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}
