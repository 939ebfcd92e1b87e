// SPDX-License-Identifier: Apache-2.0
// GemmProblem: the key of a plan. It contains everything that the choice of an algorithm may depend on, and nothing
// else.
#pragma once

#include <array>
#include <string>

#include "cuda/gemm.h"

namespace gradmill::cuda {

struct GemmProblem {
  int64_t m = 0, n = 0, k = 0;
  // Elements from one row to the next. The stride of aux is set only with an epilogue.
  int64_t stride_a = 0, stride_b = 0, stride_c = 0, stride_aux = 0;
  DType operand = DType::fp32, result = DType::fp32;
  bool transpose_a = false, transpose_b = false;
  bool adds = false;  // beta != 0: the result is added to c
  bool bias = false, tf32 = false, deterministic = false;
  GemmEpilogue epilogue = GemmEpilogue::none;
  bool sums_follow = false;
  BatchSteps batch;
  // The alignment of the pointers to a, b, c, bias and aux: the largest power of two that divides each, up to 256; 0 if
  // absent.
  std::array<uint16_t, 5> alignment{};

  bool operator==(const GemmProblem&) const = default;
  // One line without tabs, for messages and as the key in the tuning cache.
  std::string str() const;
};

GemmProblem problem_of(const GemmCall& call, int compute_capability);

struct GemmProblemHash {
  size_t operator()(const GemmProblem& problem) const;
};

}  // namespace gradmill::cuda
