// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/cublaslt_duration.h"

#include "paper_gpu/model/library_time.h"

namespace gradmill::paper {
namespace {

// A matrix shared by all GEMMs of a batch is read once.
double bytes_of(const Layout& layout) {
  const double count = layout.step == 0 ? 1 : layout.count;
  return double(layout.rows) * double(layout.cols) * count * double(size_of(layout.type));
}

}  // namespace

double duration_of(const Problem& problem, const Operands& operands) {
  constexpr uint32_t kBitsAByte = 8;
  const bool adds = operands.beta != 0 || operands.beta_on_device != nullptr;
  model::Product product{.m = double(problem.d.rows),
                         .n = double(problem.d.cols),
                         .k = double(problem.depth),
                         .count = double(problem.d.count),
                         .bits = kBitsAByte * static_cast<uint32_t>(size_of(problem.a.type)),
                         .tf32 = problem.compute == CUBLAS_COMPUTE_32F_FAST_TF32};
  product.bytes = bytes_of(problem.a) + bytes_of(problem.b) + bytes_of(problem.d) + (adds ? bytes_of(problem.c) : 0);
  if (problem.has_aux()) product.bytes += bytes_of(problem.d);
  return model::product_seconds(product);
}

}  // namespace gradmill::paper
