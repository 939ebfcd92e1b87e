// SPDX-License-Identifier: Apache-2.0
// Strict JSON for tokenizer files, with numbers parsed like Hugging Face's library.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "files/strict_json.h"

namespace gradmill {

// Throws the same errors as parse_strict_json.
nlohmann::json parse_json_text(std::string_view text, std::string_view where);

}  // namespace gradmill
