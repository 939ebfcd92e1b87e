// SPDX-License-Identifier: Apache-2.0
// How functions of the paper GPU's runtime end.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace gradmill::paper {

// What cudaGetLastError will say; returned as it is.
cudaError_t remember(cudaError_t status);
// A fault, as the error a driver would return for it.
cudaError_t refuse(const std::string& what, cudaError_t status = cudaErrorInvalidValue);

}  // namespace gradmill::paper
