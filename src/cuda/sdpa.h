// SPDX-License-Identifier: Apache-2.0
// Attention through cuDNN, planned once per shape. A machine without cuDNN and a shape that cuDNN refuses are not
// errors: the caller then uses our own kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cuda/sdpa_problem.h"

namespace gradmill::cuda {

class GpuStream;

// The first element of each sequence in a ragged tensor: (B + 1) int64, row offset times stride.
struct SdpaOffsets {
  int64_t *q = nullptr, *k = nullptr, *v = nullptr, *out = nullptr, *lse = nullptr;
  int64_t *dout = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

// Pointers to device memory. The gradients are used by the backward only, `lens` (B, int32) and `offsets` by ragged
// problems only.
struct SdpaBuffers {
  void *q = nullptr, *k = nullptr, *v = nullptr, *out = nullptr;
  void* lse = nullptr;  // fp32, H * N; (B, H, S), or (row, H) if ragged; read by cuDNN's own backward
  void *dout = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
  int32_t* lens = nullptr;
  SdpaOffsets offsets;
  void* workspace = nullptr;
};

class Sdpa {
 public:
  explicit Sdpa(GpuStream& gpu);
  ~Sdpa();

  // Whether problems whose sequences all have `len` rows may be passed as dense; if not, pass them as ragged.
  bool takes_dense(int64_t len);
  // Why forward or backward cannot be done; empty if both can. Plans the problem if necessary (not during capture).
  std::string refuses(const SdpaProblem& problem);
  // The functions below require a problem that is not refused.
  size_t workspace_bytes(const SdpaProblem& problem, bool backward);
  void forward(const SdpaProblem& problem, const SdpaBuffers& buffers);
  void backward(const SdpaProblem& problem, const SdpaBuffers& buffers);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gradmill::cuda
