// SPDX-License-Identifier: Apache-2.0
// A GPU as a session's runtime.
#pragma once

#include "core/runtime.h"

namespace gradmill::cuda {

// Throws a usage error in a build without CUDA, or where there is no GPU.
std::unique_ptr<Runtime> make_runtime(const RuntimeOptions& options);

}  // namespace gradmill::cuda
