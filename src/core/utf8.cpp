// SPDX-License-Identifier: Apache-2.0
#include "core/utf8.h"

#include <cassert>
#include <cstdint>

namespace gradmill {

std::optional<CodePoint> decode_utf8(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return CodePoint{lead, 1};
  const size_t num_bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < num_bytes) return std::nullopt;
  char32_t value = lead & (0x7fu >> num_bytes);
  for (size_t i = 1; i < num_bytes; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if ((byte & 0xc0) != 0x80) return std::nullopt;
    value = value << 6 | (byte & 0x3fu);
  }
  const bool overlong = (num_bytes == 3 && value < 0x800) || (num_bytes == 4 && value < 0x10000);
  const bool surrogate = value >= 0xd800 && value < 0xe000;
  if (overlong || surrogate || value > 0x10ffff) return std::nullopt;
  return CodePoint{value, num_bytes};
}

void append_utf8(std::string& text, char32_t code_point) {
  assert(code_point <= 0x10ffff);
  const auto tail = [&](int shift) { text += static_cast<char>(0x80u | (code_point >> shift & 0x3fu)); };
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += static_cast<char>(0xc0u | code_point >> 6);
    tail(0);
  } else if (code_point < 0x10000) {
    text += static_cast<char>(0xe0u | code_point >> 12);
    tail(6), tail(0);
  } else {
    text += static_cast<char>(0xf0u | code_point >> 18);
    tail(12), tail(6), tail(0);
  }
}

}  // namespace gradmill
