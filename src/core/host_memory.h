// SPDX-License-Identifier: Apache-2.0
// How much memory this machine still has for us.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace gradmill {

// The value of the first "key: value" line in one of the kernel's files; empty if there is none.
std::string kernel_value(const std::filesystem::path& file, std::string_view key);

// The bytes that a process can take without being killed: free or reclaimable memory, plus swap, and in a container no
// more than remains under its limit. Nothing if the kernel does not say. `root` is the folder that contains proc and
// sys.
std::optional<size_t> available_host_memory(const std::filesystem::path& root = "/");

}  // namespace gradmill
