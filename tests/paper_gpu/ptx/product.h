// SPDX-License-Identifier: Apache-2.0
// What a warpgroup's product multiplies, and where its operands are in shared memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "paper_gpu/ptx/machine.h"

namespace gradmill::paper::ptx {

// The number of rows, of 64, that each of the four warps holds.
inline constexpr int kWarpRows = 16;
inline constexpr uint32_t kChunk = 16;  // in bytes
inline constexpr uint32_t kMostColumns = 256, kChunksOfDepth = 2, kMostChunks = kMostColumns * kChunksOfDepth;

// Values of Instruction::flags for a product.
inline constexpr uint8_t kLeftInRegisters = 1, kLeftTransposed = 2, kRightTransposed = 8, kNegateLeft = 16,
                         kNegateRight = 32;

struct Shape {
  uint32_t columns, depth, per;  // per: elements in 16 bytes
};
inline Shape shape_of(const Instruction& i) {
  return {static_cast<uint32_t>(i.offset), i.target & 0xff, i.target >> 8};
}

// A matrix in shared memory as given by a descriptor: lines of chunks. A line is a row of the matrix (for the right
// operand, a column) with its chunks along k. For a transposed matrix, a line is a step of k with chunks along the
// rows. Eight lines form a group; the chunks of a line may be divided into panels.
struct OperandPlace {
  uint32_t address;
  uint32_t group_step, line_step, panel_step;  // in bytes
  uint32_t panel_shift;                        // a panel has 1 << panel_shift chunks
  uint32_t row_bytes;                          // of a swizzled row, or 0
  uint32_t lines, first_chunk, chunks;

  // Rows [first, first + count).
  OperandPlace(uint64_t descriptor, bool transposed, const Shape& shape, uint32_t first, uint32_t count);

  // Eight lines of a panel, which start at `begin` and are inside [from, to).
  struct Block {
    uint32_t begin, line, chunk, chunks, from, to;
  };
  template <class Visit>
  void for_each_block(Visit&& visit) const {
    const uint32_t panel_chunks = 1u << panel_shift;
    for (uint32_t line = 0; line < lines; line += 8) {
      for (uint32_t chunk = 0, count; chunk < chunks; chunk += count) {
        const uint32_t at = first_chunk + chunk, in_panel = at & (panel_chunks - 1);
        count = std::min(chunks - chunk, panel_chunks - in_panel);
        const uint32_t begin = address + line / 8 * group_step + (at >> panel_shift) * panel_step + in_panel * kChunk;
        const uint32_t from = row_bytes == 0 ? begin : begin & ~(row_bytes - 1);
        visit(Block{begin, line, chunk, count, from, from + 8 * line_step});
      }
    }
  }
  // Calls visit(address, line, chunk).
  template <class Visit>
  void for_each_chunk(const Block& block, Visit&& visit) const {
    const uint32_t permuted = row_bytes == 0 ? 0 : row_bytes / kChunk - 1;
    for (uint32_t line = 0; line < 8; ++line) {
      for (uint32_t chunk = 0; chunk < block.chunks; ++chunk) {
        const uint32_t at = block.begin + line * line_step + chunk * kChunk;
        visit(at ^ (at >> 7 & permuted) << 4, block.line + line, block.chunk + chunk);
      }
    }
  }
};

// The chunks of the operands that a warp reads.
struct ProductChunks {
  uint32_t num_left = 0, num_right = 0;
  uint32_t left[kMostChunks], right[kMostChunks];

  ProductChunks(const Warp& warp, const OpenProduct& product);
};

OperandPlace left_place(const Warp& warp, const OpenProduct& product);
OperandPlace right_place(const OpenProduct& product);

// Adds the warp's part of the product to its registers.
void multiply(Warp& warp, const OpenProduct& product, const ProductChunks& chunks);

}  // namespace gradmill::paper::ptx
