// SPDX-License-Identifier: Apache-2.0
// Two run folders side by side.
#pragma once

#include <filesystem>
#include <string>

namespace gradmill {

// Differing settings, final and best metrics, curves as text. Throws a data error when a folder is not a run.
std::string compare_runs(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace gradmill
