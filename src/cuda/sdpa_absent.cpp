// SPDX-License-Identifier: Apache-2.0
// For builds in which the headers of cuDNN or cudnn-frontend are missing.
#include "core/error.h"
#include "cuda/sdpa.h"

namespace gradmill::cuda {

struct Sdpa::Impl {};

Sdpa::Sdpa(GpuStream&) {}
Sdpa::~Sdpa() = default;

bool Sdpa::takes_dense(int64_t) { return true; }
std::string Sdpa::refuses(const SdpaProblem&) { return "this binary was built without cuDNN"; }
size_t Sdpa::workspace_bytes(const SdpaProblem&, bool) { return 0; }
void Sdpa::forward(const SdpaProblem& problem, const SdpaBuffers&) {
  throw Error(ExitCode::failure, refuses(problem), "choose another attention backend");
}
void Sdpa::backward(const SdpaProblem& problem, const SdpaBuffers& buffers) { forward(problem, buffers); }

}  // namespace gradmill::cuda
