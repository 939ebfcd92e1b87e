// SPDX-License-Identifier: Apache-2.0
// Attention through cuDNN, planned once per shape. A machine without cuDNN, and shapes it refuses, are answers here,
// not errors: the caller has a kernel of our own.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "core/dtype.h"

namespace gradmill::cuda {

class Engine;

// B sequences of at most S rows, H query and Hkv key heads of D; queries are keys. Rows of a tensor lie `stride`
// elements apart, heads D, so columns of a packed buffer are fine. Everything a plan depends on is here.
struct SdpaProblem {
  DType dtype = DType::bf16;
  int64_t seqs = 0, len = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int64_t rows = 0;     // N: of every tensor
  bool ragged = false;  // sequences of different lengths, one after the other; else all have S rows
  int64_t q_stride = 0, k_stride = 0, v_stride = 0, out_stride = 0;
  int64_t dout_stride = 0, dq_stride = 0, dk_stride = 0, dv_stride = 0;
  int64_t left = -1, right = -1;  // as AttentionMask of ops/attention.h
  float scale = 1;
  bool deterministic = false;  // the backward's bits do not change from run to run

  auto operator<=>(const SdpaProblem&) const = default;
};

// Where a ragged tensor's sequences begin, in elements: (B + 1) int64, row offset times stride.
struct SdpaOffsets {
  int64_t *q = nullptr, *k = nullptr, *v = nullptr, *out = nullptr, *lse = nullptr;
  int64_t *dout = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

// Device memory. The gradients are for the backward only, `lens` (B, int32) and `offsets` for ragged problems.
struct SdpaBuffers {
  void *q = nullptr, *k = nullptr, *v = nullptr, *out = nullptr;
  void* lse = nullptr;  // fp32, H * N; (B, H, S), or (row, H) when ragged: for cuDNN's own backward
  void *dout = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
  int32_t* lens = nullptr;
  SdpaOffsets offsets;
  void* workspace = nullptr;
};

class Sdpa {
 public:
  explicit Sdpa(Engine& engine);
  ~Sdpa();

  // Whether problems whose sequences all have `len` rows may be posed as such; if not, pose them as ragged.
  bool takes_dense(int64_t len);
  // Empty if forward and backward can be done, else why not. Plans what is not planned yet (not during capture).
  std::string refuses(const SdpaProblem& problem);
  // The rest is for problems that are not refused.
  size_t workspace_bytes(const SdpaProblem& problem, bool backward);
  void forward(const SdpaProblem& problem, const SdpaBuffers& buffers);
  void backward(const SdpaProblem& problem, const SdpaBuffers& buffers);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gradmill::cuda
