// SPDX-License-Identifier: Apache-2.0
// Turns failed CUDA calls into errors that say which call failed, where, and why.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>

namespace gradmill::cuda {

// Throws unless `status` is success. Running out of memory has its own exit code.
void check(cudaError_t status, const char* what, std::source_location where = std::source_location::current());

}  // namespace gradmill::cuda
