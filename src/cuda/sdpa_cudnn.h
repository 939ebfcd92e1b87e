// SPDX-License-Identifier: Apache-2.0
// cuDNN, opened on first use. All calls of cuDNN functions in the binary go to this library.
#pragma once

#include <cstddef>
#include <string>

struct cudnnContext;

namespace gradmill::cuda {

// Why cuDNN cannot be used on this machine; empty if it can. Call this before any cuDNN function.
const std::string& cudnn_missing();
// The number that cudnnGetVersion returns: 91900 is 9.19.0.
size_t cudnn_version();

struct CudnnHandleDeleter {
  void operator()(cudnnContext* handle) const;
};

}  // namespace gradmill::cuda
