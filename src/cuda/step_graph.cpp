// SPDX-License-Identifier: Apache-2.0
#include "cuda/step_graph.h"

#include <exception>

namespace gradmill::cuda {

std::string StepGraph::capture(cudaStream_t stream, const std::function<void()>& ops) {
  // Relaxed mode, because a library may make harmless driver calls during capture.
  if (const cudaError_t status = cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed); status != cudaSuccess) {
    cudaGetLastError();
    return cudaGetErrorString(status);
  }
  std::string failure;
  try {
    ops();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  cudaGraph_t captured = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream, &captured);
  cudaGraphExec_t graph = nullptr;
  if (failure.empty() && ended == cudaSuccess) {
    const cudaError_t status = cudaGraphInstantiate(&graph, captured, 0);
    if (status != cudaSuccess) failure = cudaGetErrorString(status);
  } else if (failure.empty()) {
    failure = cudaGetErrorString(ended);
  }
  if (captured != nullptr) cudaGraphDestroy(captured);
  cudaGetLastError();
  graph_.reset(graph);
  return failure;
}

}  // namespace gradmill::cuda
