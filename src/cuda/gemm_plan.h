// SPDX-License-Identifier: Apache-2.0
// GemmPlan: one problem as cuBLASLt wants it described, and the algorithms for it.
#pragma once

#include <span>
#include <vector>

#include "cuda/cublaslt.h"
#include "cuda/gemm_problem.h"

namespace gradmill::cuda {

// What every call of the library takes.
struct LtContext {
  const CublasLt& library;
  cublasLtHandle_t handle;
  std::span<std::byte> workspace;
  cudaStream_t stream;
};

class GemmPlan {
 public:
  // `call` is one of those to come: the library looks at the alignment of the pointers to bias and aux.
  GemmPlan(const CublasLt& library, const GemmProblem& problem, const GemmCall& call);

  // Up to `count` algorithms that fit into the workspace, the library's favourite first. Empty: it cannot do it.
  std::vector<cublasLtMatmulAlgo_t> suggest(const LtContext& lt, int count) const;
  // Whether an algorithm from somewhere else can do it here.
  bool accepts(const LtContext& lt, const cublasLtMatmulAlgo_t& algo) const;
  cublasStatus_t run(const LtContext& lt, const GemmCall& call, const cublasLtMatmulAlgo_t& algo) const;

 private:
  LtPreference preference(const LtContext& lt) const;

  GemmProblem problem_;
  LtMatmulDesc operation_;
  // Row-major matrices are the transposes of column-major ones: the library computes cᵀ = op(b)ᵀ · op(a)ᵀ, so its first
  // operand is our b.
  LtLayout first_, second_, result_;
};

}  // namespace gradmill::cuda
