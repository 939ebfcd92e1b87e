// SPDX-License-Identifier: Apache-2.0
// Small files as text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace gradmill {

// Throws a data_error if it is not a regular file, cannot be read, or has more bytes.
std::string read_small_file(const std::filesystem::path& path, int64_t most_bytes);

}  // namespace gradmill
