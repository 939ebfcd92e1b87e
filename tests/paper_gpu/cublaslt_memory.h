// SPDX-License-Identifier: Apache-2.0
// The memory that a GEMM of the paper cuBLASLt reads and writes: the bytes of the matrices' elements, without those
// between columns.
#pragma once

#include "paper_gpu/cublaslt_problem.h"
#include "paper_gpu/cublaslt_types.h"

namespace gradmill::paper {

// What a call adds to its problem.
struct Operands {
  const void *a = nullptr, *b = nullptr, *c = nullptr;
  void* d = nullptr;
  float alpha = 1, beta = 0;                                          // values, if the host has them
  const float *alpha_on_device = nullptr, *beta_on_device = nullptr;  // otherwise their addresses on the device
};

// Where a column of one matrix of a batch begins.
template <class Byte>
Byte* column_of(Byte* data, const Layout& layout, int32_t item, uint64_t col) {
  const int64_t elements = item * layout.step + static_cast<int64_t>(col) * layout.stride;
  return data + elements * static_cast<int64_t>(size_of(layout.type));
}
inline const std::byte* column_of(const void* data, const Layout& layout, int32_t item, uint64_t col) {
  return column_of(static_cast<const std::byte*>(data), layout, item, col);
}
inline std::byte* column_of(void* data, const Layout& layout, int32_t item, uint64_t col) {
  return column_of(static_cast<std::byte*>(data), layout, item, col);
}

// Checked when the call is made. False, with a fault, unless all memory is inside allocations.
bool expect_inside(const Problem& problem, const Operands& operands);

// Checked when the work is done. Reading unwritten memory is a fault. False if memory is missing, so that the work
// cannot be done.
bool expect_scalar(const float* scalar, const std::string& what);
bool expect_matrices(const Problem& problem, const Operands& operands, bool reads_c);
void mark_results_written(const Problem& problem, const Operands& operands);

}  // namespace gradmill::paper
