// SPDX-License-Identifier: Apache-2.0
// Matrix products through cuBLASLt, planned once per shape: descriptors and algorithm are kept.
#pragma once

#include <memory>

#include "core/tensor_view.h"

namespace gradmill::cuda {

class Engine;

// c = op(a) · op(b) + beta · addend (+ bias to every row), row-major, accumulated in fp32. As MatmulArgs of ops/matmul.h.
struct GemmCall {
  TensorView a, b, c;
  bool transpose_a = false, transpose_b = false;
  float beta = 0;
  TensorView addend;  // (m, n) like c, or undefined: c itself
  TensorView bias;    // (n) in a's dtype, or undefined
  bool tf32 = false;  // for fp32 operands
};

class Gemm {
 public:
  explicit Gemm(Engine& engine);
  ~Gemm();
  void run(const GemmCall& call);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gradmill::cuda
