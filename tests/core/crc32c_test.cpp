// SPDX-License-Identifier: Apache-2.0
#include "core/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace gradmill {
namespace {

uint32_t by_instruction(std::string_view text, uint32_t seed = 0) {
  return crc32c(std::as_bytes(std::span(text)), seed);
}
uint32_t by_table(std::string_view text) { return crc32c_portable(std::as_bytes(std::span(text))); }

// The check value from the CRC catalogue, and the vectors of RFC 3720, B.4.
TEST(Crc32c, KnownAnswers) {
  std::string rising, falling;
  for (int i = 0; i < 32; ++i) {
    rising += static_cast<char>(i);
    falling += static_cast<char>(31 - i);
  }
  const std::pair<std::string, uint32_t> answers[] = {
      {"", 0},
      {"123456789", 0xe3069283},
      {std::string(32, '\0'), 0x8a9136aa},
      {std::string(32, '\xff'), 0x62a8ab43},
      {rising, 0x46dd794e},
      {falling, 0x113fdb5c},
  };
  for (const auto& [text, crc] : answers) {
    EXPECT_EQ(by_instruction(text), crc) << text.size();
    EXPECT_EQ(by_table(text), crc) << text.size();
  }
}

TEST(Crc32c, BothWaysAgreeAtEverySizeAndOffset) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += static_cast<char>(i * 37 + 11);
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t size = 0; begin + size <= text.size(); ++size) {
      const std::string_view part = std::string_view(text).substr(begin, size);
      ASSERT_EQ(by_instruction(part), by_table(part)) << begin << ' ' << size;
    }
  }
}

TEST(Crc32c, GoesOnFromASeed) {
  const std::string_view text = "the quick brown fox jumps over the lazy dog";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(by_instruction(text.substr(cut), by_instruction(text.substr(0, cut))), by_instruction(text)) << cut;
  }
}

}  // namespace
}  // namespace gradmill
