// SPDX-License-Identifier: Apache-2.0
// GemmPlan: one problem as cuBLASLt descriptors, and the algorithms for it.
#pragma once

#include <span>
#include <vector>

#include "cuda/cublaslt.h"
#include "cuda/gemm_problem.h"

namespace gradmill::cuda {

// Arguments that every call of the library takes.
struct LtContext {
  const CublasLt& library;
  cublasLtHandle_t handle;
  std::span<std::byte> workspace;
  cudaStream_t stream;
};

class GemmPlan {
 public:
  // `call` is an example of the calls to come: the library checks the alignment of the pointers to bias and aux.
  GemmPlan(const CublasLt& library, const GemmProblem& problem, const GemmCall& call);

  // Up to `count` algorithms that fit into the workspace, best guess first. Empty if the library cannot solve the
  // problem.
  std::vector<cublasLtMatmulAlgo_t> suggest(const LtContext& lt, int count) const;
  // Whether an algorithm from the tuning cache can solve this problem.
  bool accepts(const LtContext& lt, const cublasLtMatmulAlgo_t& algo) const;
  cublasStatus_t run(const LtContext& lt, const GemmCall& call, const cublasLtMatmulAlgo_t& algo) const;

 private:
  LtPreference preference(const LtContext& lt) const;

  GemmProblem problem_;
  LtMatmulDesc operation_;
  // A row-major matrix is the transpose of a column-major one, so the library computes cᵀ = op(b)ᵀ · op(a)ᵀ and its
  // first operand is our b.
  LtLayout first_, second_, result_;
};

}  // namespace gradmill::cuda
