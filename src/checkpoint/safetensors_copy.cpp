// SPDX-License-Identifier: Apache-2.0
// Copies tensors out of a mapped safetensors file, block by block, so that pages can be freed as soon as they are read.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "files/strict_json.h"

namespace gradmill {
namespace {

// Copies rows [begin, end) of source (rows, cols) to columns of destination (cols, rows).
template <class Word>
void transpose_rows(const TensorView& source, const TensorView& destination, int64_t begin, int64_t end) {
  const int64_t rows = source.shape[0], cols = source.shape[1];
  const auto* in = static_cast<const Word*>(source.data);
  auto* out = static_cast<Word*>(destination.data);
  for (int64_t col = 0; col < cols; ++col) {
    for (int64_t row = begin; row < end; ++row) out[col * rows + row] = in[row * cols + col];
  }
}

void transpose_rows(const TensorView& source, const TensorView& destination, int64_t begin, int64_t end) {
  switch (size_of(source.dtype)) {
    case 1:
      return transpose_rows<uint8_t>(source, destination, begin, end);
    case 2:
      return transpose_rows<uint16_t>(source, destination, begin, end);
    default:
      return transpose_rows<uint32_t>(source, destination, begin, end);
  }
}

}  // namespace

void SafeTensors::copy_to(std::string_view name, const TensorView& destination, bool transposed) const {
  const TensorView source = at(name);
  assert(destination.contiguous() && (!transposed || destination.shape.rank() == 2));
  const Shape expected = transposed ? Shape{destination.shape[1], destination.shape[0]} : destination.shape;
  if (source.dtype != destination.dtype || source.shape != expected) {
    throw data_error(fmt::format("{}: tensor {} is {} {}; this model needs {} {}", path_, quote_for_message(name),
                                 name_of(source.dtype), source.shape.str(), name_of(destination.dtype), expected.str()),
                     "check that the file belongs to this model");
  }
  constexpr int64_t kBlockBytes = int64_t{4} << 20;
  const auto* begin = static_cast<const std::byte*>(source.data);
  if (source.numel() == 0) return;
  const int64_t num_rows = transposed ? source.shape[0] : source.numel();
  const int64_t row_bytes = static_cast<int64_t>(source.bytes()) / num_rows;
  const int64_t block_rows = std::max<int64_t>(1, kBlockBytes / row_bytes);
  for (int64_t row = 0; row < num_rows; row += block_rows) {
    const int64_t end = std::min(row + block_rows, num_rows);
    const std::span<const std::byte> block(begin + row * row_bytes, static_cast<size_t>((end - row) * row_bytes));
    if (transposed) {
      transpose_rows(source, destination, row, end);
    } else {
      std::memcpy(static_cast<std::byte*>(destination.data) + row * row_bytes, block.data(), block.size());
    }
    file_.check();
    file_.release(block);
  }
}

}  // namespace gradmill
