// SPDX-License-Identifier: Apache-2.0
// JSON from files that nobody vouches for. Private to the library: its users see no JSON types.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace gradmill {

struct JsonLimits {
  size_t max_depth = 64;
  size_t max_values =
      4'000'000;  // keys, scalars, arrays and objects together: bounds the memory a small text can ask for
};

// Parses the whole text. Throws data_error, its message starting with `where`, on invalid JSON, anything but white
// space after it, a key given twice in one object, or a limit passed.
nlohmann::json parse_strict_json(std::string_view text, std::string_view where, const JsonLimits& limits = {});

// Text from a file, in quotes and fit for one line of a message: control characters escaped, long ones cut.
std::string quote_for_message(std::string_view text);

}  // namespace gradmill
