// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/product.h"

namespace gradmill::paper::ptx {
namespace {

uint32_t addresses_of(const OperandPlace& place, uint32_t (&all)[kMostChunks]) {
  place.for_each_block([&](const OperandPlace::Block& block) {
    place.for_each_chunk(block,
                         [&](uint32_t at, uint32_t line, uint32_t chunk) { all[line * place.chunks + chunk] = at; });
  });
  return place.lines * place.chunks;
}

}  // namespace

OperandPlace::OperandPlace(uint64_t descriptor, bool transposed, const Shape& shape, uint32_t first, uint32_t count)
    : address(uint32_t(descriptor & 0x3fff) << 4) {
  constexpr uint32_t kRowBytes[] = {0, 128, 64, 32}, kOnePanel = 31;
  const uint32_t leading = uint32_t(descriptor >> 16 & 0x3fff) << 4, stride = uint32_t(descriptor >> 32 & 0x3fff) << 4;
  row_bytes = kRowBytes[descriptor >> 62];
  const bool permuted = row_bytes != 0;
  line_step = permuted ? row_bytes : kChunk;
  group_step = transposed && !permuted ? leading : stride;
  panel_step = transposed && !permuted ? stride : leading;
  if (transposed) {
    panel_shift = permuted ? static_cast<uint32_t>(std::countr_zero(row_bytes / kChunk)) : 0;
    lines = shape.depth;
    first_chunk = first / shape.per;
    chunks = count / shape.per;
  } else {
    panel_shift = permuted ? kOnePanel : 0;
    address += first / 8 * group_step;
    lines = count;
    first_chunk = 0;
    chunks = kChunksOfDepth;
  }
}

OperandPlace left_place(const Warp& warp, const OpenProduct& product) {
  const Instruction& i = *product.instruction;
  return {product.left, (i.flags & kLeftTransposed) != 0, shape_of(i), kWarpRows * (warp.index % 4), kWarpRows};
}

OperandPlace right_place(const OpenProduct& product) {
  const Instruction& i = *product.instruction;
  const Shape shape = shape_of(i);
  return {product.right, (i.flags & kRightTransposed) != 0, shape, 0, shape.columns};
}

ProductChunks::ProductChunks(const Warp& warp, const OpenProduct& product) {
  if (!(product.instruction->flags & kLeftInRegisters)) num_left = addresses_of(left_place(warp, product), left);
  num_right = addresses_of(right_place(product), right);
}

}  // namespace gradmill::paper::ptx
