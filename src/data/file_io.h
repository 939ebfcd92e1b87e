// SPDX-License-Identifier: Apache-2.0
// Files as a whole: read, and written completely or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

namespace gradmill {

inline constexpr int64_t kWholeFile = std::numeric_limits<int64_t>::max();

// The first `max_bytes` bytes of a file or pipe. Throws a data_error that names the path.
std::string read_bytes(const std::filesystem::path& path, int64_t max_bytes);

// Makes missing folders. Other processes see the old file or the new one, never a part. Throws a data_error that names
// the path, and then leaves no file behind.
void write_whole_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace gradmill
