// SPDX-License-Identifier: Apache-2.0
// Times the algorithms that the library suggests for one problem, on the call's own operands.
#pragma once

#include <functional>

#include "cuda/gemm_plan.h"

namespace gradmill::cuda {

// The fastest of `algos`, the library's favourite first; the favourite stays unless another is clearly faster. Takes
// about 0.15 s, waits for the stream, and leaves c as it was where the call will read it, with a product in it
// elsewhere. Throws Error (out_of_memory) where c must be copied and does not fit.
cublasLtMatmulAlgo_t fastest(const LtContext& lt, const GemmPlan& plan, const GemmCall& call,
                             std::span<const cublasLtMatmulAlgo_t> algos);

// Whether `one` takes clearly less time than `other`, both enqueued on `stream`, from a cold cache. Runs each about ten
// times and waits for them.
bool clearly_faster(cudaStream_t stream, const std::function<void()>& one, const std::function<void()>& other);

}  // namespace gradmill::cuda
