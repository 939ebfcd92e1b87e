// SPDX-License-Identifier: Apache-2.0
// Reads numbers and texts as they are written in expressions.
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

// Reads the number at the start of the text, which begins with a digit. Throws a Fault if it has more than 64 bits.
NumberLiteral read_number(std::string_view text);
// Resolves Python's escapes in the text between quotes. Throws a Fault for an escape that is not a character.
std::string unescape(std::string_view text);

}  // namespace gradmill::jinja
