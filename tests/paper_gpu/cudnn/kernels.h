// SPDX-License-Identifier: Apache-2.0
// The operations of a graph on one head of one sequence. Results have the sizes that their slices were made with.
#pragma once

#include <cudnn_graph.h>

#include "paper_gpu/cudnn/slice.h"

namespace gradmill::paper::dnn {

// y = a * b, of its first y.rows rows, y.cols columns and `depth` products each. Factors of 0 leave out what they would
// multiply: half of the products under a causal mask.
void multiply(const Slice& a, const Slice& b, int64_t depth, Slice& y);

void transpose(const Slice& x, Slice& y);

// A slice as an input: its one row or column may stand for all.
struct Operand {
  const Slice* slice = nullptr;
  bool one_row = false, one_col = false;
};
// False if the mode is not on paper. `t` is for CUDNN_POINTWISE_BINARY_SELECT.
bool apply(cudnnPointwiseMode_t mode, const Operand& x, const Operand& b, const Operand& t, Slice& y);
bool is_known(cudnnPointwiseMode_t mode);
// Where each element is: its row (axis 2) or column (3).
void fill_index(int64_t axis, Slice& y);

// Each row's sum or greatest element.
void sum_rows(const Slice& x, Slice& y);
void max_rows(const Slice& x, Slice& y);
void add(const Slice& x, Slice& y);

}  // namespace gradmill::paper::dnn
