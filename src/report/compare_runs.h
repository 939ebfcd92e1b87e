// SPDX-License-Identifier: Apache-2.0
// Compares two run folders.
#pragma once

#include <filesystem>
#include <string>

namespace gradmill {

// Settings that differ, final and best metrics, and curves, as text. Throws a data error if a folder is not a run.
std::string compare_runs(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace gradmill
