// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/cublaslt_multiply.h"

#include <algorithm>
#include <cstring>

namespace gradmill::paper {
namespace {

constexpr size_t kBlock = 16;  // along k
// The sums of a tile for one block use 12 of the 16 registers of AVX2.
using Lanes [[gnu::vector_size(32)]] = float;
constexpr size_t kLanes = sizeof(Lanes) / sizeof(float);
constexpr size_t kRows = 2 * kLanes, kCols = 6;

Lanes load(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}
void add(float* to, Lanes lanes) {
  lanes = load(to) + lanes;
  std::memcpy(to, &lanes, sizeof(lanes));
}

// Packs `width` lines side by side, with zeros for missing lines: element k of line i is at [k * width + i].
void pack(const DenseMatrix& matrix, size_t first, size_t end, size_t width, size_t depth, float* to) {
  const size_t lines = std::min(width, end - first);
  for (size_t k = 0; k < depth; ++k) {
    const float* const from = matrix.values.data() + first * matrix.line_step + k * matrix.depth_step;
    for (size_t i = 0; i < lines; ++i) to[k * width + i] = from[i * matrix.line_step];
    for (size_t i = lines; i < width; ++i) to[k * width + i] = 0;
  }
}

// tile[col * kRows + row] must be 0 at the start.
void multiply_tile(const float* a, const float* b, size_t depth, float* tile) {
  for (size_t begin = 0; begin < depth; begin += kBlock) {
    Lanes upper[kCols] = {}, lower[kCols] = {};
    const size_t end = std::min(depth, begin + kBlock);
    for (size_t k = begin; k < end; ++k) {
      const Lanes first = load(a + k * kRows), second = load(a + k * kRows + kLanes);
#pragma GCC unroll 6
      for (size_t col = 0; col < kCols; ++col) {
        const float factor = b[k * kCols + col];
        upper[col] += first * factor;
        lower[col] += second * factor;
      }
    }
#pragma GCC unroll 6
    for (size_t col = 0; col < kCols; ++col) {
      add(tile + col * kRows, upper[col]);
      add(tile + col * kRows + kLanes, lower[col]);
    }
  }
}

}  // namespace

void multiply(const DenseMatrix& a, const DenseMatrix& b, size_t rows, size_t cols, size_t depth, float* sums) {
  const size_t num_panels = (cols + kCols - 1) / kCols;
  std::vector<float> right(num_panels * kCols * depth), left(kRows * depth);
  for (size_t panel = 0; panel < num_panels; ++panel) {
    pack(b, panel * kCols, cols, kCols, depth, right.data() + panel * kCols * depth);
  }
  for (size_t row = 0; row < rows; row += kRows) {
    pack(a, row, rows, kRows, depth, left.data());
    for (size_t panel = 0; panel < num_panels; ++panel) {
      float tile[kRows * kCols] = {};
      multiply_tile(left.data(), right.data() + panel * kCols * depth, depth, tile);
      for (size_t col = panel * kCols; col < std::min(cols, (panel + 1) * kCols); ++col) {
        std::copy_n(tile + (col - panel * kCols) * kRows, std::min(kRows, rows - row), sums + col * rows + row);
      }
    }
  }
}

}  // namespace gradmill::paper
