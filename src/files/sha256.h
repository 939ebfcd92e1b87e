// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), used to check that a data set is the expected one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gradmill {

// Hashes bytes that arrive in parts.
class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  // Returns 64 lower-case hexadecimal digits. No update may follow.
  std::string hex();

 private:
  static constexpr size_t kBlock = 64;

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kBlock> rest_{};  // less than a block
  uint64_t num_bytes_ = 0;
};

// Returns 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace gradmill
