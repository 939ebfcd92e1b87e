// SPDX-License-Identifier: Apache-2.0
// JSON from files that nobody vouches for. Private to the library: its users see no JSON types.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace gradmill {

struct JsonRules {
  size_t max_depth = 64;
  size_t max_values =
      4'000'000;  // keys, scalars, arrays and objects together: bounds the memory a small text can ask for
  std::string_view fix = "the file is damaged or not what it claims to be";  // the advice that refusals end with
  // What a number with a point or an exponent means, by its text and the double that is nearest; null: the nearest.
  double (*read_real)(std::string_view text, double nearest) = nullptr;
};

// Parses the whole text. Throws data_error, its message starting with `where`, on invalid JSON, anything but white
// space after it, a key given twice in one object, or a limit passed.
nlohmann::json parse_strict_json(std::string_view text, std::string_view where, const JsonRules& rules = {});

// Text from a file, in quotes and fit for one line of a message: control characters escaped, long ones cut.
std::string quote_for_message(std::string_view text);

}  // namespace gradmill
