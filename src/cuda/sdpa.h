// SPDX-License-Identifier: Apache-2.0
// Attention through cuDNN, planned once per shape. A machine without cuDNN, and shapes it refuses, are answers here,
// not errors: the caller has a kernel of our own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cuda/sdpa_problem.h"

namespace gradmill::cuda {

class GpuStream;

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
  explicit Sdpa(GpuStream& gpu);
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
