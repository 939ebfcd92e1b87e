// SPDX-License-Identifier: Apache-2.0
// The fp32 sums of the paper cuBLASLt's GEMMs.
#pragma once

#include <cstddef>
#include <vector>

namespace gradmill::paper {

// An fp32 matrix: element (line, k) is at line * line_step + k * depth_step.
struct DenseMatrix {
  std::vector<float> values;
  size_t line_step = 0, depth_step = 0;
};

// sums[col * rows + row] = the sum over k of a(row, k) · b(col, k). Products are added in blocks of 16 along k: the sum
// of a block starts at 0, is computed in ascending order, and is then added to the total. The paper GPU's matrix
// instructions add in the same order, so that a fused kernel and its separate parts give the same bits.
void multiply(const DenseMatrix& a, const DenseMatrix& b, size_t rows, size_t cols, size_t depth, float* sums);

}  // namespace gradmill::paper
