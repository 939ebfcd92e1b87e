// SPDX-License-Identifier: Apache-2.0
// Reads whole files and pipes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

namespace gradmill {

inline constexpr int64_t kWholeFile = std::numeric_limits<int64_t>::max();

// Reads the first `max_bytes` bytes of a file or pipe. Throws a data_error that names the path.
std::string read_bytes(const std::filesystem::path& path, int64_t max_bytes);
// Reads all bytes. Throws a data_error with this hint if there are more than `most_bytes`.
std::string read_whole(const std::filesystem::path& path, int64_t most_bytes, std::string_view hint);

}  // namespace gradmill
