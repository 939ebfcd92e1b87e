// SPDX-License-Identifier: Apache-2.0
// Reads a configuration file.
#pragma once

#include <filesystem>
#include <string>

namespace gradmill {

// Fills `text` and returns "", or returns why the file cannot be read. Pipes work; more than a megabyte is refused.
std::string read_text_file(const std::filesystem::path& path, std::string& text);

}  // namespace gradmill
