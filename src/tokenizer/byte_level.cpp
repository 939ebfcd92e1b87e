// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/byte_level.h"

#include <array>
#include <cstdint>

#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

constexpr char32_t kNumChars = 0x100 + 68;  // 68 bytes are not spelled as themselves

struct ByteTables {
  std::array<char32_t, 256> to_char{};
  std::array<int16_t, kNumChars> to_byte{};
};

constexpr ByteTables make_tables() {
  ByteTables tables;
  tables.to_byte.fill(-1);
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
    tables.to_char[byte] = printable ? byte : next++;
    tables.to_byte[tables.to_char[byte]] = static_cast<int16_t>(byte);
  }
  return tables;
}

constexpr ByteTables kTables = make_tables();
static_assert(kTables.to_char[' '] == 0x120 && kTables.to_char[0xAD] == kNumChars - 1);

}  // namespace

char32_t byte_to_char(unsigned char byte) { return kTables.to_char[byte]; }

std::string spell_bytes(std::string_view bytes) {
  std::string spelling;
  for (const char byte : bytes) append_code_point(spelling, byte_to_char(static_cast<unsigned char>(byte)));
  return spelling;
}

std::optional<std::string> unspell_bytes(std::string_view spelling) {
  std::string bytes;
  for (size_t i = 0; i < spelling.size();) {
    const Utf8Char c = read_utf8(spelling, i);
    if (c.value >= kNumChars || kTables.to_byte[c.value] < 0) return std::nullopt;
    bytes += static_cast<char>(kTables.to_byte[c.value]);
    i += c.num_bytes;
  }
  return bytes;
}

}  // namespace gradmill
