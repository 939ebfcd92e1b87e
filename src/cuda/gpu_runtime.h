// SPDX-License-Identifier: Apache-2.0
// Runtime for a session on a GPU.
#pragma once

#include "core/runtime.h"

namespace gradmill::cuda {

// Throws a usage error if the build has no CUDA or the machine no GPU.
std::unique_ptr<Runtime> make_runtime(const RuntimeOptions& options);

}  // namespace gradmill::cuda
