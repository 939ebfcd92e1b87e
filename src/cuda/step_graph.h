// SPDX-License-Identifier: Apache-2.0
// A sequence of ops as a CUDA graph: captured once, then replayed with one call.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>

#include "cuda/check.h"

namespace gradmill::cuda {

class StepGraph {
 public:
  // Captures the work that `ops` enqueues on `stream` without running it. Returns why that failed, or an empty string.
  std::string capture(cudaStream_t stream, const std::function<void()>& ops);
  bool ready() const { return graph_ != nullptr; }
  void launch(cudaStream_t stream) const { check(cudaGraphLaunch(graph_.get(), stream), "launching a graph"); }

 private:
  struct Destroy {
    void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy> graph_;
};

}  // namespace gradmill::cuda
