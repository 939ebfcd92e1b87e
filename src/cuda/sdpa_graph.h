// SPDX-License-Identifier: Apache-2.0
// One planned attention in cuDNN, forward or backward.
#pragma once

#include "cuda/sdpa.h"

struct cudnnContext;

namespace gradmill::cuda {

class SdpaGraph {
 public:
  // Never throws. If cuDNN has no plan, refusal() says why; otherwise it is empty.
  SdpaGraph(cudnnContext* handle, const SdpaProblem& problem, bool backward);
  ~SdpaGraph();

  const std::string& refusal() const { return refusal_; }
  size_t workspace_bytes() const { return workspace_bytes_; }
  // Runs on the handle's stream. Throws if cuDNN fails.
  void run(cudnnContext* handle, const SdpaBuffers& buffers) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::string refusal_;
  size_t workspace_bytes_ = 0;
};

}  // namespace gradmill::cuda
