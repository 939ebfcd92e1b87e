// SPDX-License-Identifier: Apache-2.0
// Downloads with the machine's own curl or wget, so that its proxies and certificates apply.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace gradmill {

// Downloads `url` into memory. If the SHA-256 is the expected one, writes the bytes to `target` and returns them. On
// any failure throws a data_error and leaves no file.
std::string download_file(std::string_view url, const std::filesystem::path& target, std::string_view sha256);

}  // namespace gradmill
