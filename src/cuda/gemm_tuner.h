// SPDX-License-Identifier: Apache-2.0
// Times the algorithms that cuBLASLt suggests for one problem, with the operands of the call.
#pragma once

#include <functional>

#include "cuda/gemm_plan.h"

namespace gradmill::cuda {

// Returns the fastest of `algos`. The library's first suggestion comes first and wins unless another is clearly faster.
// Takes about 0.15 s and waits for the stream. Leaves c unchanged if the call will read it; otherwise c contains a
// result afterwards. Throws Error (out_of_memory) if c must be copied and the copy does not fit.
cublasLtMatmulAlgo_t fastest(const LtContext& lt, const GemmPlan& plan, const GemmCall& call,
                             std::span<const cublasLtMatmulAlgo_t> algos);

// Whether `one` takes clearly less time than `other`. Both enqueue on `stream` and are timed with a cold cache. Runs
// each about ten times and waits for them.
bool clearly_faster(cudaStream_t stream, const std::function<void()>& one, const std::function<void()>& other);

}  // namespace gradmill::cuda
