// SPDX-License-Identifier: Apache-2.0
// A JSON parser for untrusted files. Private to the library: its users see no JSON types.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace gradmill {

struct JsonRules {
  size_t max_depth = 64;
  size_t max_values =
      4'000'000;  // total of keys, scalars, arrays and objects: limits the memory that a small text can claim
  std::string_view fix = "the file is damaged or not what it claims to be";  // the advice at the end of each refusal
  // Converts a number with a point or an exponent from its text and the nearest double. Null: takes the nearest double.
  double (*read_real)(std::string_view text, double nearest) = nullptr;
};

// Parses the whole text. Throws a data_error that starts with `where` on invalid JSON, on anything but white space
// after it, on a key that appears twice in an object, or when a limit is exceeded.
nlohmann::json parse_strict_json(std::string_view text, std::string_view where, const JsonRules& rules = {});

// Quotes text from a file so that it fits on one line of a message: escapes control characters and cuts long text.
std::string quote_for_message(std::string_view text);

}  // namespace gradmill
