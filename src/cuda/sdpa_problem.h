// SPDX-License-Identifier: Apache-2.0
// An attention problem as it is passed to cuDNN, and the cuDNN versions that are known to solve it wrongly.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/dtype.h"

namespace gradmill::cuda {

// B sequences of at most S rows, with H query heads and Hkv key heads of size D. Queries and keys are the same rows. In
// each tensor, rows are `stride` elements apart and heads D, so columns of a packed buffer are allowed. Contains
// everything that a plan depends on.
struct SdpaProblem {
  DType dtype = DType::bf16;
  int64_t seqs = 0, len = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int64_t rows = 0;     // N, for every tensor
  bool ragged = false;  // sequences of different lengths, one after the other; false: all have S rows
  int64_t q_stride = 0, k_stride = 0, v_stride = 0, out_stride = 0;
  int64_t dout_stride = 0, dq_stride = 0, dk_stride = 0, dv_stride = 0;
  int64_t left = -1, right = -1;  // as in AttentionMask of ops/attention/attention.h
  float scale = 1;
  bool deterministic = false;  // the backward gives the same bits in every run

  auto operator<=>(const SdpaProblem&) const = default;
};

// Why this version of cuDNN (as returned by cudnnGetVersion: 91801 is 9.18.1) must not be used for the problem although
// it accepts it: its forward or backward is known to give wrong results. Empty if no defect is known.
std::string known_wrong_in_cudnn(const SdpaProblem& problem, int compute_capability, size_t version);

}  // namespace gradmill::cuda
