// SPDX-License-Identifier: Apache-2.0
// How functions of the paper GPU's runtime return errors.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace gradmill::paper {

// Sets the result of cudaGetLastError and returns it.
cudaError_t remember(cudaError_t status);
// Reports a fault, and returns the error that a driver would.
cudaError_t refuse(const std::string& what, cudaError_t status = cudaErrorInvalidValue);

}  // namespace gradmill::paper
