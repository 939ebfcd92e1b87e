// SPDX-License-Identifier: Apache-2.0
// UTF-8 (RFC 3629). Overlong forms, surrogates and values over U+10FFFF are invalid.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gradmill {

inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

struct CodePoint {
  char32_t value;
  size_t num_bytes;
};

// The code point at the start of `text`, or nothing if there is no valid one.
std::optional<CodePoint> decode_utf8(std::string_view text);
void append_utf8(std::string& text, char32_t code_point);

}  // namespace gradmill
