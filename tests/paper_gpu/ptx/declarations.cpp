// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/declarations.h"

#include <algorithm>

#include "paper_gpu/ptx/traffic.h"

namespace gradmill::paper::ptx {

Variable read_variable(Cursor& cursor, std::string_view& name) {
  Variable variable;
  std::string_view word = cursor.word();
  while (word == ".align") {
    variable.align = static_cast<uint32_t>(cursor.integer());
    word = cursor.word();
  }
  variable.bytes = bytes_of(word.substr(1));
  variable.align = std::max(variable.align, variable.bytes);
  name = cursor.word();
  while (name.starts_with('.') || (!name.empty() && name[0] >= '0' && name[0] <= '9')) name = cursor.word();  // .ptr
  while (cursor.take('[')) {
    variable.bytes *= cursor.peek() == ']' ? 0 : static_cast<uint32_t>(cursor.integer());
    cursor.expect(']');
  }
  return variable;
}

uint32_t place(uint32_t& end, const Variable& variable) {
  const uint32_t at = (end + variable.align - 1) / variable.align * variable.align;
  end = at + variable.bytes;
  return at;
}

std::vector<std::string_view> names_up_to(Cursor& cursor, char end) {
  std::vector<std::string_view> names;
  while (!cursor.take(end)) {
    names.push_back(cursor.word());
    if (names.back().empty()) cursor.expect(end);
    cursor.take(',');
  }
  return names;
}

std::vector<std::string_view> names_in_parentheses(Cursor& cursor) {
  if (!cursor.take('(')) return {};
  std::vector<std::string_view> names = names_up_to(cursor, ')');
  cursor.take(',');
  return names;
}

uint32_t shared_granule_of(const Statement& statement) {
  constexpr uint32_t kMost = 4;
  constexpr std::string_view kNames[] = {"ld", "ldu", "st", "atom", "red"};
  if (std::find(std::begin(kNames), std::end(kNames), statement.parts[0]) == std::end(kNames)) return kMost;
  const Space space = space_of(statement);
  const bool may_be_shared = space == Space::shared || space == Space::cluster || space == Space::generic;
  return may_be_shared ? std::min(kMost, bytes_of(statement.type())) : kMost;
}

}  // namespace gradmill::paper::ptx
