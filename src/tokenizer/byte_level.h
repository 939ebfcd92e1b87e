// SPDX-License-Identifier: Apache-2.0
// GPT-2's spelling of bytes: each of the 256 values has a printable character, so that a vocabulary is readable text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gradmill {

// '!' to '~', U+00A1 to U+00AC and U+00AE to U+00FF are spelled as themselves. The others use U+0100 and up, in order.
char32_t byte_to_char(unsigned char byte);

// For example, "
// hi" becomes "ĊĠhi".
std::string spell_bytes(std::string_view bytes);
// The inverse of spell_bytes. Nothing if the text contains a character that spells no byte.
std::optional<std::string> unspell_bytes(std::string_view spelling);

}  // namespace gradmill
