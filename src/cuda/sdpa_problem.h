// SPDX-License-Identifier: Apache-2.0
// An attention problem as cuDNN is asked to solve it, and the ranges of versions whose answers are known to be wrong.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/dtype.h"

namespace gradmill::cuda {

// B sequences of at most S rows, H query and Hkv key heads of D; queries are keys. Rows of a tensor lie `stride`
// elements apart, heads D, so columns of a packed buffer are fine. Everything a plan depends on is here.
struct SdpaProblem {
  DType dtype = DType::bf16;
  int64_t seqs = 0, len = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int64_t rows = 0;     // N: of every tensor
  bool ragged = false;  // sequences of different lengths, one after the other; else all have S rows
  int64_t q_stride = 0, k_stride = 0, v_stride = 0, out_stride = 0;
  int64_t dout_stride = 0, dq_stride = 0, dk_stride = 0, dv_stride = 0;
  int64_t left = -1, right = -1;  // as AttentionMask of ops/attention/attention.h
  float scale = 1;
  bool deterministic = false;  // the backward's bits do not change from run to run

  auto operator<=>(const SdpaProblem&) const = default;
};

// Why this version of cuDNN (as cudnnGetVersion gives it: 91801 is 9.18.1) must not be used for the problem although it
// accepts it: forward or backward is known to give wrong results there. Empty where nothing is known.
std::string known_wrong_in_cudnn(const SdpaProblem& problem, int compute_capability, size_t version);

}  // namespace gradmill::cuda
