// SPDX-License-Identifier: Apache-2.0
// What is enqueued on the paper GPU's streams: done at once, or kept while a graph is captured.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace gradmill::paper {

// `work` may be empty: kernels do nothing but take their time.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);

}  // namespace gradmill::paper
