// SPDX-License-Identifier: Apache-2.0
// JSON from files that nobody vouches for. Private to the library: its users see no JSON types.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace gradmill {

struct JsonTextLimits {
  size_t max_depth = 32;
  size_t max_values = 16'000'000;  // keys and values together: a vocabulary of 256K with its merges has about 2 million
};

// Parses the whole text. Throws data_error, its message starting with `where`, for invalid JSON, a key that appears
// twice in one object, or a limit passed.
nlohmann::json parse_json_text(std::string_view text, std::string_view where, const JsonTextLimits& limits = {});

// Text from a file, in quotes and fit for one line of a message.
std::string quote_token(std::string_view text);

}  // namespace gradmill
