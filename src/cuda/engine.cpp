// SPDX-License-Identifier: Apache-2.0
#include "cuda/engine.h"

#include "cuda/gemm.h"
#include "cuda/sdpa.h"

namespace gradmill::cuda {

Engine::Engine(const EngineOptions& options)
    : GpuStream(options), gemm_(std::make_unique<Gemm>(*this)), sdpa_(std::make_unique<Sdpa>(*this)) {}

Engine::~Engine() = default;

size_t Engine::library_bytes() const { return gemm_->workspace_bytes(); }

void poison_device(std::byte* begin, size_t bytes) {
  // Ops on other streams may still use the previous contents of this memory.
  check(cudaDeviceSynchronize(), "poisoning memory");
  check(cudaMemset(begin, 0xff, bytes), "poisoning memory");
  check(cudaDeviceSynchronize(), "poisoning memory");
}

}  // namespace gradmill::cuda
