// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/cudnn/kernels.h"

#include <algorithm>
#include <array>
#include <limits>

namespace gradmill::paper::dnn {
namespace {

constexpr int64_t kLanes = 8;

// Reduces one row in separate lanes, which are combined at the end.
template <class Join>
float reduce(const float* values, int64_t count, float start, const Join& join) {
  std::array<float, kLanes> lanes;
  lanes.fill(start);
  const int64_t whole = count / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < lanes.size(); ++lane) lanes[lane] = join(lanes[lane], values[i + int64_t(lane)]);
  }
  for (int64_t i = whole; i < count; ++i) lanes[0] = join(lanes[0], values[i]);
  for (size_t lane = 1; lane < lanes.size(); ++lane) lanes[0] = join(lanes[0], lanes[lane]);
  return lanes[0];
}

}  // namespace

void multiply(const Slice& a, const Slice& b, int64_t depth, Slice& y) {
  constexpr int64_t kAtOnce = 4;
  const int64_t cols = y.cols;
  for (int64_t r = 0; r < y.rows; ++r) {
    float* const to = y.row(r);
    const float* const factors = a.row(r);
    std::fill_n(to, cols, 0.0f);
    int64_t k = 0;
    for (; k + kAtOnce <= depth; k += kAtOnce) {
      const float f0 = factors[k], f1 = factors[k + 1], f2 = factors[k + 2], f3 = factors[k + 3];
      if (f0 == 0 && f1 == 0 && f2 == 0 && f3 == 0) continue;
      const float *const b0 = b.row(k), *const b1 = b.row(k + 1), *const b2 = b.row(k + 2), *const b3 = b.row(k + 3);
      for (int64_t c = 0; c < cols; ++c) to[c] += f0 * b0[c] + f1 * b1[c] + (f2 * b2[c] + f3 * b3[c]);
    }
    for (; k < depth; ++k) {
      const float factor = factors[k];
      const float* const from = b.row(k);
      if (factor == 0) continue;
      for (int64_t c = 0; c < cols; ++c) to[c] += factor * from[c];
    }
  }
}

void transpose(const Slice& x, Slice& y) {
  constexpr int64_t kTile = 32;
  for (int64_t row = 0; row < x.rows; row += kTile) {
    for (int64_t col = 0; col < x.cols; col += kTile) {
      const int64_t row_end = std::min(row + kTile, x.rows), col_end = std::min(col + kTile, x.cols);
      for (int64_t r = row; r < row_end; ++r) {
        for (int64_t c = col; c < col_end; ++c) y.row(c)[r] = x.row(r)[c];
      }
    }
  }
}

void fill_index(int64_t axis, Slice& y) {
  for (int64_t r = 0; r < y.rows; ++r) {
    float* const to = y.row(r);
    if (axis == 2) std::fill_n(to, y.cols, static_cast<float>(r));
    if (axis == 3) {
      for (int64_t c = 0; c < y.cols; ++c) to[c] = static_cast<float>(c);
    }
  }
}

void sum_rows(const Slice& x, Slice& y) {
  for (int64_t r = 0; r < y.rows; ++r) {
    *y.row(r) = reduce(x.row(r), x.cols, 0.0f, [](float sum, float value) { return sum + value; });
  }
}

void max_rows(const Slice& x, Slice& y) {
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  for (int64_t r = 0; r < y.rows; ++r) {
    *y.row(r) = reduce(x.row(r), x.cols, kLeast, [](float most, float value) { return value > most ? value : most; });
  }
}

void add(const Slice& x, Slice& y) {
  const int64_t count = y.rows * y.cols;
  for (int64_t i = 0; i < count; ++i) y.row(0)[i] += x.row(0)[i];
}

}  // namespace gradmill::paper::dnn
