// SPDX-License-Identifier: Apache-2.0
// How much memory this machine can still give us.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace gradmill {

// The value of the first "key: value" line of one of the kernel's files; empty where there is none.
std::string kernel_value(const std::filesystem::path& file, std::string_view key);

// Bytes that a process can take without being killed for it: memory that is free or can be freed, and swap; in a
// container no more than its limit leaves. Nothing where the kernel does not say. `root` holds its proc and sys.
std::optional<size_t> available_host_memory(const std::filesystem::path& root = "/");

}  // namespace gradmill
