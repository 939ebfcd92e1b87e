// SPDX-License-Identifier: Apache-2.0
#include "model_files/file_text.h"

#include "core/error.h"
#include "files/mapped_file.h"

namespace gradmill {

std::string read_small_file(const std::filesystem::path& path, int64_t most_bytes) {
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  if (std::ssize(bytes) > most_bytes) {
    throw data_error(fmt::format("{}: {} bytes; such a file has at most {}", path.string(), bytes.size(), most_bytes),
                     "check whether this is the right file");
  }
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  file.check();
  return text;
}

}  // namespace gradmill
