// SPDX-License-Identifier: Apache-2.0
// For builds without CUDA: no session can run on a GPU.
#include "core/error.h"
#include "cuda/gpu_runtime.h"

namespace gradmill::cuda {

std::unique_ptr<Runtime> make_runtime(const RuntimeOptions& options) {
  throw usage_error(fmt::format("this build cannot run on {}", options.device.title),
                    "build with 'make CUDA=on', use machine.device=cpu, or plan for the GPU with 'gradmill plan'");
}

}  // namespace gradmill::cuda
