// SPDX-License-Identifier: Apache-2.0
// Pointwise operations. True and false are the numbers 1 and 0.
#include <cmath>

#include "paper_gpu/cudnn/kernels.h"

namespace gradmill::paper::dnn {
namespace {

const float* row_of(const Operand& operand, int64_t r) { return operand.slice->row(operand.one_row ? 0 : r); }

template <class Function>
bool each(const Operand& x, Slice& y, const Function& function) {
  for (int64_t r = 0; r < y.rows; ++r) {
    float* const to = y.row(r);
    const float* const from = row_of(x, r);
    const int64_t step = x.one_col ? 0 : 1;
    for (int64_t c = 0; c < y.cols; ++c) to[c] = function(from[c * step]);
  }
  return true;
}

template <class Function>
bool each(const Operand& x, const Operand& b, Slice& y, const Function& function) {
  for (int64_t r = 0; r < y.rows; ++r) {
    float* const to = y.row(r);
    const float *const left = row_of(x, r), *const right = row_of(b, r);
    if (!x.one_col && !b.one_col) {
      for (int64_t c = 0; c < y.cols; ++c) to[c] = function(left[c], right[c]);
    } else if (!x.one_col && y.cols > 0) {
      const float same = *right;
      for (int64_t c = 0; c < y.cols; ++c) to[c] = function(left[c], same);
    } else {
      const int64_t step = b.one_col ? 0 : 1;
      for (int64_t c = 0; c < y.cols; ++c) to[c] = function(*left, right[c * step]);
    }
  }
  return true;
}

bool select(const Operand& x, const Operand& b, const Operand& t, Slice& y) {
  const int64_t x_step = x.one_col ? 0 : 1, b_step = b.one_col ? 0 : 1, t_step = t.one_col ? 0 : 1;
  for (int64_t r = 0; r < y.rows; ++r) {
    float* const to = y.row(r);
    const float *const yes = row_of(x, r), *const no = row_of(b, r), *const which = row_of(t, r);
    for (int64_t c = 0; c < y.cols; ++c) to[c] = which[c * t_step] != 0 ? yes[c * x_step] : no[c * b_step];
  }
  return true;
}

float truth(bool value) { return value ? 1.0f : 0.0f; }

}  // namespace

bool is_known(cudnnPointwiseMode_t mode) {
  switch (mode) {
    case CUDNN_POINTWISE_IDENTITY:
    case CUDNN_POINTWISE_EXP:
    case CUDNN_POINTWISE_LOG:
    case CUDNN_POINTWISE_ADD:
    case CUDNN_POINTWISE_SUB:
    case CUDNN_POINTWISE_MUL:
    case CUDNN_POINTWISE_DIV:
    case CUDNN_POINTWISE_CMP_LT:
    case CUDNN_POINTWISE_CMP_GT:
    case CUDNN_POINTWISE_CMP_GE:
    case CUDNN_POINTWISE_LOGICAL_AND:
    case CUDNN_POINTWISE_BINARY_SELECT:
    case CUDNN_POINTWISE_GEN_INDEX:
      return true;
    default:
      return false;
  }
}

bool apply(cudnnPointwiseMode_t mode, const Operand& x, const Operand& b, const Operand& t, Slice& y) {
  switch (mode) {
    case CUDNN_POINTWISE_IDENTITY:
      return each(x, y, [](float v) { return v; });
    case CUDNN_POINTWISE_EXP:
      return each(x, y, [](float v) { return std::exp(v); });
    case CUDNN_POINTWISE_LOG:
      return each(x, y, [](float v) { return std::log(v); });
    case CUDNN_POINTWISE_ADD:
      return each(x, b, y, [](float v, float w) { return v + w; });
    case CUDNN_POINTWISE_SUB:
      return each(x, b, y, [](float v, float w) { return v - w; });
    case CUDNN_POINTWISE_MUL:
      return each(x, b, y, [](float v, float w) { return v * w; });
    case CUDNN_POINTWISE_DIV:
      return each(x, b, y, [](float v, float w) { return v / w; });
    case CUDNN_POINTWISE_CMP_LT:
      return each(x, b, y, [](float v, float w) { return truth(v < w); });
    case CUDNN_POINTWISE_CMP_GT:
      return each(x, b, y, [](float v, float w) { return truth(v > w); });
    case CUDNN_POINTWISE_CMP_GE:
      return each(x, b, y, [](float v, float w) { return truth(v >= w); });
    case CUDNN_POINTWISE_LOGICAL_AND:
      return each(x, b, y, [](float v, float w) { return truth(v != 0 && w != 0); });
    case CUDNN_POINTWISE_BINARY_SELECT:
      return select(x, b, t, y);
    default:
      return false;
  }
}

}  // namespace gradmill::paper::dnn
