// SPDX-License-Identifier: Apache-2.0
// cuDNN, opened when it is first asked for. Calls of cuDNN's own functions anywhere in the binary go to that library.
#pragma once

#include <cstddef>
#include <string>

struct cudnnContext;

namespace gradmill::cuda {

// Why cuDNN cannot be used on this machine; empty if it can. Call nothing of cuDNN before this has said so.
const std::string& cudnn_missing();
// As cuDNN counts: 91900 is 9.19.0.
size_t cudnn_version();

struct CudnnHandleDeleter {
  void operator()(cudnnContext* handle) const;
};

}  // namespace gradmill::cuda
