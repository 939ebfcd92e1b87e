// SPDX-License-Identifier: Apache-2.0
// Numbers and texts as they are written in expressions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "data/chat/jinja/value.h"

namespace gradmill::jinja {

struct NumberLiteral {
  Value value;
  size_t num_bytes = 0;
};

// The number at the start of the text, which begins with a digit. Throws a Fault for one of more than 64 bits.
NumberLiteral read_number(std::string_view text);
// What stands between quotes, with Python's escapes resolved. Throws a Fault for an escape that is none of a character.
std::string unescape(std::string_view text);

}  // namespace gradmill::jinja
