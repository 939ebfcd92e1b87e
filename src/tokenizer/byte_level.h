// SPDX-License-Identifier: Apache-2.0
// GPT-2's spelling of bytes: each of the 256 has a printable character, so that a vocabulary is readable text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gradmill {

// '!' to '~', U+00A1 to U+00AC and U+00AE to U+00FF spell themselves, the rest U+0100 and on, in order.
char32_t byte_to_char(unsigned char byte);

// "\n hi" is spelt "ĊĠhi".
std::string spell_bytes(std::string_view bytes);
// The inverse; nothing where the text has a character that spells no byte.
std::optional<std::string> unspell_bytes(std::string_view spelling);

}  // namespace gradmill
