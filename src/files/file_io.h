// SPDX-License-Identifier: Apache-2.0
// Files and pipes, read as a whole.
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
// All of them. More than `most_bytes`: a data_error with this hint.
std::string read_whole(const std::filesystem::path& path, int64_t most_bytes, std::string_view hint);

}  // namespace gradmill
