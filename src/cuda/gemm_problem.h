// SPDX-License-Identifier: Apache-2.0
// GemmProblem: everything that the choice of an algorithm may depend on, and nothing else: the key of a plan.
#pragma once

#include <array>
#include <string>

#include "cuda/gemm.h"

namespace gradmill::cuda {

struct GemmProblem {
  int64_t m = 0, n = 0, k = 0;
  // Elements from one row to the next; of aux only with an epilogue.
  int64_t stride_a = 0, stride_b = 0, stride_c = 0, stride_aux = 0;
  DType operand = DType::fp32, result = DType::fp32;
  bool transpose_a = false, transpose_b = false;
  bool adds = false;  // to what c was
  bool bias = false, tf32 = false, deterministic = false;
  GemmEpilogue epilogue = GemmEpilogue::none;
  bool sums_follow = false;
  BatchSteps batch;
  // Of pointers to a, b, c, bias and aux: the largest power of two that divides them, up to 256; 0: not there.
  std::array<uint16_t, 5> alignment{};

  bool operator==(const GemmProblem&) const = default;
  // One line without tabs: for people, and the key in the tuning cache.
  std::string str() const;
};

GemmProblem problem_of(const GemmCall& call, int compute_capability);

struct GemmProblemHash {
  size_t operator()(const GemmProblem& problem) const;
};

}  // namespace gradmill::cuda
