// SPDX-License-Identifier: Apache-2.0
// A tokenizer's JSON: strict, and with numbers as Hugging Face's library reads them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "files/strict_json.h"

namespace gradmill {

// Throws as parse_strict_json does.
nlohmann::json parse_json_text(std::string_view text, std::string_view where);

}  // namespace gradmill
