// SPDX-License-Identifier: Apache-2.0
// The paper GPU's tensor map: a matrix in global memory, and the boxes that are copied from and to it.
#pragma once

#include <cstdint>

namespace gradmill::paper::ptx {

struct TensorMap {
  static constexpr uint64_t kMagic = 0x70614d726f736e65;
  uint64_t magic, address;
  uint64_t sizes[2];  // elements per row, rows
  uint64_t stride;    // bytes from row to row
  uint32_t box[2];    // elements per row, rows
  uint32_t element_bytes;
  uint32_t swizzle;  // bytes of a swizzled row: 0, 32, 64 or 128

  uint32_t row_bytes() const { return box[0] * element_bytes; }
  uint32_t box_bytes() const { return row_bytes() * box[1]; }
};
static_assert(sizeof(TensorMap) <= 128);

// Chunks of 16 bytes are permuted within eight rows, by the address bits above those of a row.
inline uint32_t swizzled(uint32_t address, uint32_t row_bytes) {
  const uint32_t rows = row_bytes / 16;  // 8, 4 or 2
  return rows < 2 ? address : address ^ ((address >> 7 & (rows - 1)) << 4);
}

}  // namespace gradmill::paper::ptx
