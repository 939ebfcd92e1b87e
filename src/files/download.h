// SPDX-License-Identifier: Apache-2.0
// Downloads through the machine's own curl or wget, so that its proxies and certificates are used.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace gradmill {

// Fetches `url` into memory and, if its SHA-256 is the expected one, writes it to `target`; returns its bytes. On any
// failure throws a data_error and leaves no file behind.
std::string download_file(std::string_view url, const std::filesystem::path& target, std::string_view sha256);

}  // namespace gradmill
