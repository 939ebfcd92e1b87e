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

}  // namespace gradmill
