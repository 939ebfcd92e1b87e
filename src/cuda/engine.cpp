// SPDX-License-Identifier: Apache-2.0
#include "cuda/engine.h"

#include "cuda/gemm.h"
#include "cuda/sdpa.h"

namespace gradmill::cuda {

Engine::Engine(const EngineOptions& options) : options_(options) {
  check(cudaSetDevice(options.index), "choosing the GPU");
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, which, options.index), "reading a property of the GPU");
    return value;
  };
  const int here = 10 * attribute(cudaDevAttrComputeCapabilityMajor) + attribute(cudaDevAttrComputeCapabilityMinor);
  compute_capability_ = options.chosen_for > 0 ? options.chosen_for : here;
  num_units_ = attribute(cudaDevAttrMultiProcessorCount);
  stream_ = make_stream();
  gemm_ = std::make_unique<Gemm>(*this);
  sdpa_ = std::make_unique<Sdpa>(*this);
}

Engine::~Engine() = default;

void Engine::synchronise() const { check(cudaStreamSynchronize(stream_.get()), "waiting for the GPU"); }

size_t Engine::library_bytes() const { return gemm_->workspace_bytes(); }

void Engine::note_once(const std::string& text) {
  if (noted_.insert(text).second) options_.note(text);
}

void poison_device(std::byte* begin, size_t bytes) {
  // Ops on other streams may still use what this memory was before.
  check(cudaDeviceSynchronize(), "poisoning memory");
  check(cudaMemset(begin, 0xff, bytes), "poisoning memory");
  check(cudaDeviceSynchronize(), "poisoning memory");
}

}  // namespace gradmill::cuda
