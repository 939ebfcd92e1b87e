// SPDX-License-Identifier: Apache-2.0
// The operations of a graph on one head of one sequence. The caller sets the sizes of result slices.
#pragma once

#include <cudnn_graph.h>

#include "paper_gpu/cudnn/slice.h"

namespace gradmill::paper::dnn {

// y = a * b, for the first y.rows rows, y.cols columns and `depth` products each. Products with a factor of 0 are
// skipped, which is half of them under a causal mask.
void multiply(const Slice& a, const Slice& b, int64_t depth, Slice& y);

void transpose(const Slice& x, Slice& y);

// A slice as an input. A single row or column is broadcast.
struct Operand {
  const Slice* slice = nullptr;
  bool one_row = false, one_col = false;
};
// False if the mode is not supported. `t` is for CUDNN_POINTWISE_BINARY_SELECT.
bool apply(cudnnPointwiseMode_t mode, const Operand& x, const Operand& b, const Operand& t, Slice& y);
bool is_known(cudnnPointwiseMode_t mode);
// Sets each element to its row index (axis 2) or column index (axis 3).
void fill_index(int64_t axis, Slice& y);

// The sum or the largest element of each row.
void sum_rows(const Slice& x, Slice& y);
void max_rows(const Slice& x, Slice& y);
void add(const Slice& x, Slice& y);

}  // namespace gradmill::paper::dnn
