// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli): the checksum of TensorBoard records and checkpoint files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gradmill {

// To continue a checksum, pass the previous result as `seed`: crc32c(b, crc32c(a)) is the checksum of a followed by b.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t seed = 0);

// The same checksum from a table, for processors without the instruction.
uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t seed = 0);

}  // namespace gradmill
