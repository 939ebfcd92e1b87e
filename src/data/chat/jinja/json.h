// SPDX-License-Identifier: Apache-2.0
// Converts values from and to JSON text like Python's json module.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "data/chat/jinja/value.h"

namespace gradmill::jinja {

// Throws a Fault for invalid JSON, values nested deeper than 64, and integers of more than 64 bits.
Value parse_json(std::string_view text);

struct JsonStyle {
  bool ascii = false;  // write non-ASCII characters as \u escapes
  std::optional<std::string> indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
std::string to_json(const Value& value, const JsonStyle& style, Work& work);

}  // namespace gradmill::jinja
