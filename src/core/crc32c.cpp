// SPDX-License-Identifier: Apache-2.0
#include "core/crc32c.h"

#include <array>
#include <cstring>

#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

namespace gradmill {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = make_table();

}  // namespace

uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t seed) {
  uint32_t crc = ~seed;
  for (std::byte byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ std::to_integer<uint32_t>(byte)) & 0xff];
  return ~crc;
}

#ifdef __SSE4_2__

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t seed) {
  uint64_t crc = ~seed;
  for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    crc = _mm_crc32_u64(crc, word);
  }
  auto tail = static_cast<uint32_t>(crc);
  for (std::byte byte : bytes) tail = _mm_crc32_u8(tail, std::to_integer<uint8_t>(byte));
  return ~tail;
}

#else

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t seed) { return crc32c_portable(bytes, seed); }

#endif

}  // namespace gradmill
