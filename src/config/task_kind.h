// SPDX-License-Identifier: Apache-2.0
// The values of data.task.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gradmill {

enum class TaskKind : uint8_t { text, instruct, mask, classify, regress };

// In the order of TaskKind.
inline constexpr std::array<const char*, 5> kTaskNames{"text", "instruct", "mask", "classify", "regress"};

inline const char* name_of(TaskKind kind) { return kTaskNames[static_cast<size_t>(kind)]; }

inline std::optional<TaskKind> find_task_kind(std::string_view name) {
  const auto found = std::find(kTaskNames.begin(), kTaskNames.end(), name);
  if (found == kTaskNames.end()) return std::nullopt;
  return static_cast<TaskKind>(found - kTaskNames.begin());
}

// Whether records are examples with a class or a number instead of running text.
inline bool is_labelled(TaskKind kind) { return kind == TaskKind::classify || kind == TaskKind::regress; }

}  // namespace gradmill
