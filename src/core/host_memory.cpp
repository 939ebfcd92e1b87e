// SPDX-License-Identifier: Apache-2.0
#include "core/host_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>

namespace gradmill {
namespace {

namespace fs = std::filesystem;

std::optional<size_t> number(std::string_view text) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<size_t> number_in(const fs::path& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return number(line);
}

// Reads a line like "inactive_file 4096": the size of cached files, which the kernel drops when memory is needed.
size_t cached_files(const fs::path& group) {
  std::ifstream file(group / "memory.stat");
  size_t value = 0;
  for (std::string key; file >> key >> value;) {
    if (key == "inactive_file") return value;
  }
  return 0;
}

// The bytes that remain under a control group's limit, or nothing if it has no limit.
std::optional<size_t> left_in(const fs::path& group) {
  const std::optional<size_t> limit = number_in(group / "memory.max"), used = number_in(group / "memory.current");
  if (!limit || !used) return {};
  const size_t needed = *used - std::min(*used, cached_files(group));
  return *limit - std::min(*limit, needed);
}

// A line like "0::/user.slice/session" names our control group. Each group above it may have its own limit.
fs::path own_group(const fs::path& root) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return {};
}

}  // namespace

std::string kernel_value(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  return {};
}

std::optional<size_t> available_host_memory(const fs::path& root) {
  constexpr size_t kKiB = 1024;
  const fs::path memory = root / "proc/meminfo";
  std::optional<size_t> available = number(kernel_value(memory, "MemAvailable"));
  if (!available) return {};
  *available = kKiB * (*available + number(kernel_value(memory, "SwapFree")).value_or(0));
  const fs::path top = root / "sys/fs/cgroup";
  for (fs::path group = own_group(root);; group = group.parent_path()) {
    if (const std::optional<size_t> left = left_in(top / group)) available = std::min(*available, *left);
    if (group.empty()) return available;
  }
}

}  // namespace gradmill
